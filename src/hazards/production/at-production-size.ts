import type { RelationRates, TargetTraffic } from '../../database/traffic.ts';
import { formatTime, listed } from '../../format.ts';
import type { EffectFacts, HazardFacts } from '../../model/hazard-facts.ts';
import type { Profile } from '../../model/profile-model.ts';
import type { Caveat, CommandSection, DataSection, StatementSection } from '../../model/report.ts';
import { withoutLastPart } from '../../postgres/sql/quote.ts';
import type { ForecastInput } from '../forecast.ts';
import { HazardContext } from '../hazard-context.ts';
import { productionGrants } from './production-grants.ts';
import { asJudged, type Grown, growthOf, repeatedShapes, withLocks, withTimes } from './production-times.ts';
import { Sizes } from './sizes.ts';

/** The evidence that depends on how much there is. */
export type SizedEvidence = Omit<HazardFacts, 'traffic'> &
  Pick<ForecastInput, 'traffic' | 'rewrittenBytes' | 'diskSpace' | 'unsharedBytes' | 'targetWasEmptied'> & {
    readonly command: Pick<CommandSection, 'exitCode' | 'durationMs'>;
    readonly data: DataSection | null;
  };

export interface AtProductionSize<E> {
  /** The evidence as production would show it: what hazards, forecast and budgets judge by. */
  readonly judged: E;
  /** The statements as they were measured, with their times at production's size beside them. */
  readonly statements: StatementSection[];
  /** Relations of the command's statements that the profile does not have. */
  readonly missing: string[];
  readonly caveats: Caveat[];
}

/**
 * Puts production's sizes and rates in the place of those that were measured. Relations have the same names here and there; those that
 * the profile does not have are judged by their size here.
 */
export function atProductionSize<E extends SizedEvidence>(
  evidence: E,
  profile: Profile,
): AtProductionSize<E> {
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

function rewrittenAt(rewritten: ReadonlyMap<string, number>, sizes: Sizes): Map<string, number> {
  return new Map(
    [...rewritten].map(([relation, bytes]) => {
      const { sizeBytes, indexBytes } = sizes.there(relation) ?? {};
      return [relation, sizeBytes == null ? bytes : sizeBytes + (indexBytes ?? 0)];
    }),
  );
}

/** What a profile says of traffic, as if it had been sampled in this run; transactions that are open now are not production's. */
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
  const [perTransaction = 0, connections = 0] = ['max_locks_per_transaction', 'max_connections'].map((name) =>
    Number(settings[name]),
  );
  const capacity = perTransaction * (connections + Number(settings.max_prepared_transactions ?? 0));
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
