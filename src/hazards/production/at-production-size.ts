import { LOCKING_SETTINGS, type RelationRates, type TargetTraffic } from '../../database/traffic.ts';
import { formatTime, listed } from '../../format.ts';
import {
  type EffectFacts,
  EXPECTED_GRANTS,
  type MissingGrant,
  type NewRelation,
  neededOn,
} from '../../model/effect-facts.ts';
import type { HazardFacts } from '../../model/hazard-facts.ts';
import type { Profile, ProfiledAccess } from '../../model/profile-model.ts';
import type { Caveat, CommandSection, DataSection, StatementSection } from '../../model/report.ts';
import { withoutLastPart } from '../../postgres/sql/quote.ts';
import type { ForecastInput } from '../forecast.ts';
import { HazardContext } from '../hazard-context.ts';
import { asJudged, type Grown, growthOf, repeatedShapes, withLocks, withTimes } from './production-times.ts';
import { Sizes } from './sizes.ts';

/** The evidence that depends on how much there is. */
type SizedEvidence = Omit<HazardFacts, 'traffic'> &
  Pick<ForecastInput, 'traffic' | 'rewrittenBytes' | 'diskSpace' | 'unsharedBytes' | 'targetWasEmptied'> & {
    readonly command: Pick<CommandSection, 'exitCode' | 'durationMs'>;
    readonly data: DataSection | null;
  };

/**
 * Puts production's sizes and rates in the place of those that were measured. Relations have the same names here and there; those that
 * the profile does not have are judged by their size here, and are `missing`.
 * @returns `judged`, the evidence as production would show it, and the statements as they were measured, with their times there beside them
 */
export function atProductionSize<E extends SizedEvidence>(evidence: E, profile: Profile) {
  const sizes = new Sizes(evidence.catalogue, profile);
  const context = new HazardContext({ ...evidence, traffic: null });
  const batches = repeatedShapes(evidence.statements);
  const grown = evidence.statements.map((statement) => growthOf(context, statement, sizes, batches));
  const statements = withLocks(grown.map(withTimes));
  const walFactor = walFactorOf(grown, evidence.data);
  const judgedStatements = statements.map(asJudged);
  const extraMs = judgedStatements.reduce(
    (sum, { durationMs }, at) => sum + durationMs - (statements[at]?.durationMs ?? durationMs),
    0,
  );
  const missing = sizes.missing([...touched(evidence.statements)]);
  return {
    judged: {
      ...evidence,
      statements: judgedStatements,
      command: { ...evidence.command, durationMs: evidence.command.durationMs + Math.max(0, extraMs) },
      catalogue: {
        ...evidence.catalogue,
        relations: sizes.relations(),
        effects: effectsAt(evidence, profile),
      },
      data: evidence.data && dataAt(evidence.data, sizes, walFactor),
      rewrittenBytes: evidence.rewrittenBytes && rewrittenAt(evidence.rewrittenBytes, sizes),
      diskSpace: profile.freeBytes === null ? null : { freeBytes: profile.freeBytes, compressRatio: 1 },
      unsharedBytes: null,
      targetWasEmptied: false,
      traffic: trafficOf(profile, evidence.traffic),
    },
    statements,
    missing,
    caveats: [...caveatsOf(profile, statements, missing), ...accessCaveats(evidence, profile)],
  };
}

function effectsAt({ catalogue: { effects } }: SizedEvidence, { access }: Profile): EffectFacts {
  return access ? { ...effects, missingGrants: productionGrants(effects, access) } : effects;
}

function* touched(statements: readonly StatementSection[]): Iterable<string> {
  const seen = new Set<string>();
  for (const { locks, rewrote } of statements)
    for (const relation of [...rewrote, ...(locks ?? []).map((lock) => lock.relation)])
      if (!seen.has(relation)) {
        seen.add(relation);
        yield relation;
      }
}

/** The growth of the files goes through the WAL, so that one factor holds for both. */
function walFactorOf(grown: readonly Grown[], data: DataSection | null): number {
  const measured = data?.walBytes ?? 0;
  if (measured <= 0) return Math.max(1, ...grown.map(({ factor }) => factor));
  const more = grown.reduce(
    (sum, { statement, factor }) => sum + (statement.walBytes ?? 0) * (factor - 1),
    0,
  );
  return Math.max(0, measured + more) / measured;
}

function dataAt(data: DataSection, sizes: Sizes, walFactor: number): DataSection {
  const times = (figure: number | null, factor: number) =>
    figure === null ? null : Math.round(figure * factor);
  return {
    ...data,
    walBytes: times(data.walBytes, walFactor),
    sizeDeltaBytes: times(data.sizeDeltaBytes, walFactor),
    lost: data.lost.map((lost) => {
      if (lost.rows === 0 && lost.rowsWithValue === null) return lostThere(lost, sizes);
      const growth = sizes.growth([lost.kind === 'table' ? lost.object : withoutLastPart(lost.object)]);
      if (!growth || growth.hereRows === 0) return lost;
      const factor = growth.thereRows / growth.hereRows;
      return {
        ...lost,
        rows: times(lost.rows, factor),
        rowsWithValue: times(lost.rowsWithValue, factor),
        rowsChanged: times(lost.rowsChanged, factor),
        exact: false,
      };
    }),
  };
}

/** A loss of which nothing was seen here, since the table is empty. */
function lostThere(lost: DataSection['lost'][number], sizes: Sizes): DataSection['lost'][number] {
  const isTable = lost.kind === 'table';
  const rows = sizes.there(isTable ? lost.object : withoutLastPart(lost.object))?.rows ?? null;
  return { ...lost, rows, rowsWithValue: isTable ? rows : sizes.valuesThere(lost.object) };
}

function rewrittenAt(rewritten: ReadonlyMap<string, number>, sizes: Sizes): Map<string, number> {
  return new Map(
    [...rewritten].map(([relation, bytes]) => {
      const { sizeBytes, indexBytes } = sizes.there(relation) ?? {};
      return [relation, sizeBytes == null ? bytes : sizeBytes + (indexBytes ?? 0)];
    }),
  );
}

/** Returns the traffic of a profile, as if it had been sampled in this run; transactions that are open now are not production's. */
function trafficOf(
  { traffic, relations, settings }: Profile,
  here: ForecastInput['traffic'],
): ForecastInput['traffic'] {
  if (traffic === null) return { unmeasured: 'the profile has no statistics of traffic' };
  const rates = relations.flatMap((each): [string, RelationRates][] => {
    const { readsPerSecond, insertsPerSecond, writesPerSecond } = each;
    return readsPerSecond === null || insertsPerSecond === null || writesPerSecond === null
      ? []
      : [[each.relation, { readsPerSecond, insertsPerSecond, writesPerSecond }]];
  });
  const profiled: TargetTraffic = {
    sampledMs: traffic.sampledMs,
    transactionsPerSecond: traffic.transactionsPerSecond,
    relations: new Map(rates),
    average: null,
    sessions: traffic.sessions,
    standbys: traffic.standbys,
    inactiveSlots: traffic.inactiveSlots,
    lockWaits: traffic.lockWaits ?? null,
    hiddenSessions: 0,
    oldestTransaction: null,
    preparedTransactions: { count: 0, oldestMs: null },
    tableOfIndex: 'unmeasured' in here ? new Map() : here.tableOfIndex,
    holders: [],
    ...lockTableOf(settings),
  };
  return profiled;
}

/** How many locks the server has room for; those that others held when the profile was taken are not known. */
function lockTableOf(settings: Profile['settings']): Pick<TargetTraffic, 'lockTable'> {
  const backends = LOCKING_SETTINGS.reduce((sum, name) => sum + Number(settings[name] ?? 0), 0);
  const capacity = Number(settings.max_locks_per_transaction ?? 0) * backends;
  return capacity > 0 ? { lockTable: { capacity, held: null } } : {};
}

function accessCaveats({ catalogue: { effects } }: SizedEvidence, { access }: Profile): Caveat[] {
  if (access !== undefined || effects.newRelations.length === 0) return [];
  const reason =
    'the profile is of an earlier version of safemigrate, without default privileges: who may not use a new table is judged by the grants here; take it again';
  return [{ path: 'profile', kind: 'unmeasured', reason }];
}

function caveatsOf(
  { takenAt, unread }: Profile,
  statements: readonly StatementSection[],
  missing: readonly string[],
): Caveat[] {
  const isTypical = statements.some(({ atProductionSize: time }) => time?.basis === 'typical rate');
  const isExtrapolated = statements.some((each) => each.atProductionSize !== undefined);
  const caveats: Caveat[] = [];
  if (isExtrapolated)
    caveats.push({
      path: 'statements[].atProductionSize',
      kind: 'estimate',
      reason:
        `the rate that was measured here, times the sizes in the profile of ${formatTime(takenAt)}; production's own machine may be ` +
        `faster or slower, and waiting for locks is not in it${isTypical ? '; what took too little time here has a typical rate' : ''}`,
    });
  if (missing.length > 0)
    caveats.push({
      path: 'hazards[].severity',
      kind: 'estimate',
      reason: `the profile does not have ${listed(missing)}: judged by the size here`,
    });
  return [
    ...caveats,
    ...unread.map(
      ({ what, reason }): Caveat => ({
        path: 'profile',
        kind: 'unmeasured',
        reason: `when the profile was taken, ${what} could not be read: ${reason}`,
      }),
    ),
  ];
}

/** Roles that may read or write everything without a GRANT. */
const READS_ALL = 'pg_read_all_data';
const WRITES_ALL = 'pg_write_all_data';

/**
 * Returns who would lack privileges on the new relations in production: of the schemas that the profile has, by its grants and default
 * privileges, as if the owner of most of a schema's relations made them; of others, what was found here.
 */
export function productionGrants(
  { missingGrants, newRelations }: EffectFacts,
  access: ProfiledAccess,
): MissingGrant[] {
  const known = new Set(access.schemas.map(({ schema }) => schema));
  const schemaOf = new Map(newRelations.map(({ relation, schema }) => [relation, schema]));
  return [
    ...missingGrants.filter(({ relation }) => !known.has(schemaOf.get(relation) ?? '')),
    ...newRelations.flatMap((relation) => missingOn(relation, access)),
  ];
}

function missingOn(made: NewRelation, access: ProfiledAccess): MissingGrant[] {
  const { relation, schema, grants } = made;
  const siblings = access.schemas.find((each) => each.schema === schema);
  if (!siblings || siblings.relations < EXPECTED_GRANTS.relations) return [];
  const { creator, granted } = siblings;
  const inSchema = access.defaults.filter((each) => each.schema === null || each.schema === schema);
  const given = [...grants, ...inSchema.filter((each) => each.creator === creator)];
  return access.roles.flatMap(({ role, has }): MissingGrant[] => {
    const own = new Set([role, 'PUBLIC', ...has]);
    const isCovered = (privilege: string) =>
      own.has(creator) ||
      own.has(privilege === 'SELECT' ? READS_ALL : WRITES_ALL) ||
      given.some((each) => own.has(each.role) && each.privileges.includes(privilege));
    const expected = granted
      .filter((each) => each.role === role && each.relations >= siblings.relations * EXPECTED_GRANTS.share)
      .map(({ privilege }) => privilege);
    const privileges = neededOn(
      made,
      expected.filter((privilege) => !isCovered(privilege)),
    );
    if (privileges.length === 0) return [];
    const defaultsOf = inSchema.filter((each) => each.role === role).map((each) => each.creator);
    const missing = { relation, role, privileges, siblings: siblings.relations, owner: creator };
    return [
      {
        ...missing,
        defaultsOf: [...new Set(defaultsOf)].filter((each) => each !== creator),
        byProfile: true,
      },
    ];
  });
}
