import type { Clone } from '../../clone/method.ts';
import { openInClone } from '../../clone/own-sessions.ts';
import type { Target } from '../../database/target.ts';
import { messageOf, sqlstateOf } from '../../errors.ts';
import { endsRun, measured } from '../../measured.ts';
import type { Caveat, CheckSection, QueriesSection, SchemaSection } from '../../model/report.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { statementWithoutSecrets } from '../../postgres/sql/statement-secrets.ts';
import { compareQueries, type QueryTrials, withoutStatistics } from './compare-queries.ts';
import {
  type ColumnStates,
  type ProductionPlans,
  type ProductionSizes,
  planAtProductionSize,
} from './production-plans.ts';
import type { ApplicationQueries } from './query-source.ts';
import { maybeRequired, type RefusedWrite, refusedWrites } from './refused-writes.ts';
import { newConstraints, triedWrites } from './tried-writes.ts';
import { type QueryTrial, tryQueries } from './try-queries.ts';
import { type CheckResult, compareCheck, runCheck, type UserCheck } from './user-check.ts';

/** Queries of the application and the user's own checks, which are to hold before the command and after it. */
export interface ChecksOptions {
  readonly target: Target;
  /** null: there are none to be tried. */
  readonly queries: ApplicationQueries | null;
  readonly checks: readonly UserCheck[];
  readonly production: ProductionSizes | null;
  readonly run: RunId;
  readonly audit: Audit;
  readonly signal: AbortSignal;
}

/** Results of the queries and checks before the command. */
export interface ChecksBefore {
  /** null: there were none, or they could not be tried. */
  readonly trials: readonly QueryTrial[] | null;
  readonly columns?: ColumnStates;
  readonly results: ReadonlyMap<UserCheck, CheckResult>;
  readonly caveats: readonly Caveat[];
}

export interface Checked {
  readonly queries: QueriesSection | null;
  readonly checks: CheckSection[];
  readonly caveats: readonly Caveat[];
}

/** How to log in to a clone. */
type ClonePlace = Pick<Clone, 'connect' | 'sharesRoles'>;

const hasAny = ({ queries, checks }: ChecksOptions) => queries !== null || checks.length > 0;

/** Tries the queries and runs the checks on the clone. Leaves no session there. */
export async function runChecksBefore(clone: ClonePlace, options: ChecksOptions): Promise<ChecksBefore> {
  if (!hasAny(options)) return { trials: null, results: new Map(), caveats: [] };
  const caveats: Caveat[] = [];
  const asked = await inCloneForChecks(clone, options, async (session) => {
    const trials = await tryAll(session, options.queries, caveats);
    const results = new Map<UserCheck, CheckResult>();
    for (const check of options.checks.filter(({ rule }) => rule === 'same'))
      results.set(check, await runCheck(session, check));
    return { trials, results };
  });
  const planned = asked.trials && (await withProductionPlans(clone, options, asked.trials, caveats));
  return { ...asked, ...planned, caveats };
}

/**
 * Tries and runs the same again, and compares. The caveats say what could not be tried.
 * @param schema what the command changed; null if it is not known.
 * @param interrupt aborted: nothing is run.
 */
export async function runChecksAfter(
  clone: ClonePlace,
  options: ChecksOptions,
  before: ChecksBefore,
  schema: SchemaSection | null,
  interrupt?: AbortSignal,
): Promise<Checked> {
  const caveats = [...before.caveats];
  if (!hasAny(options) || interrupt?.aborted) return { queries: null, checks: [], caveats };
  try {
    const sections = await inCloneForChecks(clone, options, async (session) => {
      const trials = before.trials && (await tryAll(session, options.queries, caveats));
      const refusals = await lackingValues(session, options.queries, schema);
      const checks: CheckSection[] = [];
      for (const check of options.checks) {
        const result = await runCheck(session, check).catch(failedCheck);
        checks.push(compareCheck(check, before.results.get(check) ?? null, result));
      }
      return { trials, refusals, checks };
    });
    const violating = await violatingWrites(clone, options, schema, caveats);
    const refusals = sections.refusals.map((refusal, index) => refusal ?? violating[index] ?? null);
    const planned =
      before.columns && sections.trials
        ? await withProductionPlans(clone, options, sections.trials, caveats, before.columns)
        : { trials: sections.trials };
    const { trials: after } = planned;
    const compared = compareTrials(options.queries, [before.trials, after], refusals);
    const trials = { ...planned, source: options.queries, before: before.trials, after };
    const queries = await analyzedIfSlower(clone, options, compared, trials, caveats);
    if (compared) caveats.push(...queryCaveats(compared.skipped));
    return { ...withoutPasswords({ queries, checks: sections.checks }), caveats };
  } catch (error) {
    if (endsRun(error)) throw error;
    if (options.queries)
      caveats.push({ path: 'queries.checked', kind: 'unmeasured', reason: messageOf(error) });
    const checks = options.checks.map((check) => compareCheck(check, null, failedCheck(error)));
    return { ...withoutPasswords({ queries: null, checks }), caveats };
  }
}

/** The clone may be gone by now: what could not be run has not passed. */
function failedCheck(error: unknown): CheckResult {
  if (endsRun(error)) throw error;
  return { kind: 'error', sqlstate: sqlstateOf(error) ?? '', message: messageOf(error) };
}

async function inCloneForChecks<T>(
  clone: ClonePlace,
  options: ChecksOptions,
  use: (session: Session) => Promise<T>,
  readOnly = true,
): Promise<T> {
  return withSession(openForChecks(clone, options, readOnly), use);
}

function openForChecks(clone: ClonePlace, context: ChecksOptions, readOnly: boolean): Promise<Session> {
  return openInClone({ clone, context }, { purpose: 'checks', readOnly, pipelined: true });
}

async function tryAll(
  session: Session,
  queries: ApplicationQueries | null,
  caveats: Caveat[],
): Promise<readonly QueryTrial[] | null> {
  if (!queries) return null;
  const texts = queries.queries.map(({ sql }) => sql);
  return measured(caveats, 'queries.checked', () => tryQueries(session, texts));
}

/**
 * Adds the plans that production's sizes lead to.
 * @param before the columns as they were before the command; undefined: before it, or as they are once all have statistics.
 */
async function withProductionPlans(
  clone: ClonePlace,
  options: ChecksOptions,
  trials: readonly QueryTrial[],
  caveats: Caveat[],
  before?: ColumnStates,
): Promise<{ trials: readonly QueryTrial[] } & Partial<Pick<ProductionPlans, 'columns' | 'lost'>>> {
  const { production, queries, target } = options;
  if (!production || !queries || !trials.some(({ plan }) => plan)) return { trials };
  const asHere = (reason: string) => {
    caveats.push({
      path: 'queries.slower',
      kind: 'unmeasured',
      reason: `plans were made by the sizes of this database: ${reason}`,
    });
    return { trials };
  };
  if (!production.relations.some(({ planner }) => planner))
    return asHere("the profile has no planner statistics, of an earlier version's or for lack of rights");
  if (!clone.sharesRoles || !target.role.superuser)
    return asHere("production's can be set only by a superuser of the clone's server");
  const plan = () =>
    planAtProductionSize(
      () => openForChecks(clone, options, false),
      production,
      queries.queries.map(({ sql }) => sql),
      trials.map((trial) => trial.plan),
      before,
    );
  const found = await measured(caveats, 'queries.slower', plan);
  if (found === null) return { trials };
  if (found === undefined) return asHere("the clone's server has no folder of this tool's on this machine");
  return {
    trials: trials.map((trial, index) => ({ ...trial, productionPlan: found.plans[index] ?? null })),
    columns: found.columns,
    lost: found.lost,
  };
}

type Refusals = readonly (RefusedWrite | null)[];

async function lackingValues(
  session: Session,
  queries: ApplicationQueries | null,
  schema: SchemaSection | null,
): Promise<Refusals> {
  const texts = (queries?.queries ?? []).map(({ sql }) => sql);
  const suspects = schema && maybeRequired(schema);
  if (!suspects || suspects.size === 0) return texts.map(() => null);
  return refusedWrites(session, texts, suspects);
}

async function violatingWrites(
  clone: ClonePlace,
  options: ChecksOptions,
  schema: SchemaSection | null,
  caveats: Caveat[],
): Promise<Refusals> {
  const texts = (options.queries?.queries ?? []).map(({ sql }) => sql);
  const suspects = schema && newConstraints(schema);
  if (!suspects || suspects.size === 0 || texts.length === 0) return [];
  const attempt = () =>
    inCloneForChecks(clone, options, (session) => triedWrites(session, texts, suspects), false);
  return (await measured(caveats, 'queries.refused', attempt)) ?? [];
}

type Trials = readonly QueryTrial[] | null;

/** Tells slower queries from those that only lack statistics. What cannot be analyzed is reported as slower. */
async function analyzedIfSlower(
  clone: ClonePlace,
  options: ChecksOptions,
  section: QueriesSection | null,
  { source, before, after, lost }: { [K in keyof QueryTrials]: QueryTrials[K] | null },
  caveats: Caveat[],
): Promise<QueriesSection | null> {
  if (!section || section.slower.length === 0 || !source || !before || !after) return section;
  const trials = { source, before, after, lost: lost ?? [] };
  const isSized = section.slower.some(({ atProductionSize }) => atProductionSize);
  const analyze = async () => {
    const use = (session: Session) =>
      withoutStatistics(session, section, trials, async (queries) => {
        const trials = await tryQueries(
          session,
          queries.queries.map(({ sql }) => sql),
        );
        return isSized ? withProductionPlans(clone, { ...options, queries }, trials, caveats) : { trials };
      });
    return inCloneForChecks(clone, options, use, false);
  };
  return (await measured(caveats, 'queries.slower', analyze)) ?? section;
}

function compareTrials(
  queries: ApplicationQueries | null,
  [before, after]: readonly [Trials, Trials],
  refusals: Refusals,
): QueriesSection | null {
  return queries && before && after ? compareQueries(queries, before, after, refusals) : null;
}

function queryCaveats({ hidden }: QueriesSection['skipped']): Caveat[] {
  const caveats: Caveat[] = [];
  if (hidden > 0) {
    const reason = `the text of ${hidden} statements of other roles is hidden: pg_read_all_stats would show it`;
    caveats.push({ path: 'queries.skipped', kind: 'unmeasured', reason });
  }
  return caveats;
}

/** Without passwords. */
function withoutPasswords({
  queries,
  checks,
}: Pick<Checked, 'queries' | 'checks'>): Pick<Checked, 'queries' | 'checks'> {
  const shownText = <T extends { sql: string }>(items: readonly T[]): T[] =>
    items.map((item) => ({ ...item, sql: statementWithoutSecrets(item.sql) }));
  return {
    queries: queries && {
      ...queries,
      broken: shownText(queries.broken),
      refused: shownText(queries.refused ?? []),
      changedRow: shownText(queries.changedRow ?? []),
      slower: shownText(queries.slower),
    },
    checks: checks.map((check) => ({ ...check, name: statementWithoutSecrets(check.name) })),
  };
}
