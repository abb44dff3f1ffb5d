import type { Clone } from '../../clone/method.ts';
import { messageOf, sqlstateOf } from '../../errors.ts';
import type { Caveat, CheckSection, QueriesSection } from '../../model/report.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { measured } from '../measured.ts';
import { statementWithoutSecrets } from '../statement-secrets.ts';
import { compareQueries } from './compare-queries.ts';
import type { ApplicationQueries } from './query-source.ts';
import { type QueryTrial, tryQueries } from './try-queries.ts';
import { type CheckResult, compareCheck, runCheck, type UserCheck } from './user-check.ts';

export interface ChecksOptions {
  /** null: there are none to be tried. */
  readonly queries: ApplicationQueries | null;
  readonly checks: readonly UserCheck[];
  /** Leave literals and values of rows out of what is reported. */
  readonly run: RunId;
  readonly audit: Audit;
  readonly signal: AbortSignal;
}

export interface Checked {
  readonly queries: QueriesSection | null;
  readonly checks: CheckSection[];
  readonly caveats: Caveat[];
}

/** What must hold before the command and after it: queries of the application, and the user's own checks. */
export interface ChecksWatch {
  /** There is anything to be looked at. */
  readonly asked: boolean;
  before(): Promise<void>;
  /** What could not be looked at, the caveats say. */
  after(interrupt?: AbortSignal): Promise<Checked>;
}

/** Nothing of ours stays connected to the clone between the two. */
export function watchChecks(clone: Clone, options: ChecksOptions): ChecksWatch {
  const { queries, checks, run, audit, signal } = options;
  const asked = queries !== null || checks.length > 0;
  const texts = (queries?.queries ?? []).map(({ sql }) => sql);
  const caveats: Caveat[] = [];
  let trials: readonly QueryTrial[] | null = null;
  let results: ReadonlyMap<UserCheck, CheckResult> = new Map();

  const inClone = async (use: (session: Session) => Promise<void>): Promise<void> => {
    const session = await openSession(clone.connect, {
      purpose: 'checks',
      run,
      audit,
      signal,
      readOnly: true,
      pipelined: true,
    });
    try {
      await use(session);
    } finally {
      await session.close();
    }
  };

  return {
    asked,
    async before() {
      if (!asked) return;
      await inClone(async (session) => {
        trials = queries && (await measured(caveats, 'queries.checked', () => tryQueries(session, texts)));
        const needed = checks.filter(({ rule }) => rule === 'same');
        results = await resultsOf(session, needed);
      });
    },
    async after(interrupt) {
      const sections: { queries: QueriesSection | null; checks: CheckSection[] } = {
        queries: null,
        checks: [],
      };
      if (!asked || interrupt?.aborted) return { ...sections, caveats };
      const then = trials;
      try {
        await inClone(async (session) => {
          const now = then && (await measured(caveats, 'queries.checked', () => tryQueries(session, texts)));
          if (queries && then && now) sections.queries = compareQueries(queries, then, now);
          for (const check of checks) {
            const result = await runCheck(session, check);
            sections.checks.push(compareCheck(check, results.get(check) ?? null, result));
          }
        });
      } catch (error) {
        // The clone may be gone by now: what could not be asked has not passed.
        const failed: CheckResult = {
          kind: 'error',
          sqlstate: sqlstateOf(error) ?? '',
          message: messageOf(error),
        };
        for (const check of checks.slice(sections.checks.length))
          sections.checks.push(compareCheck(check, null, failed));
        if (queries && !sections.queries)
          caveats.push({ path: 'queries.checked', kind: 'unmeasured', reason: messageOf(error) });
      }
      if (sections.queries) caveats.push(...queryCaveats(sections.queries.skipped));
      return { ...shown(sections), caveats };
    },
  };
}

async function resultsOf(
  session: Session,
  checks: readonly UserCheck[],
): Promise<Map<UserCheck, CheckResult>> {
  const results = new Map<UserCheck, CheckResult>();
  for (const check of checks) results.set(check, await runCheck(session, check));
  return results;
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
function shown({
  queries,
  checks,
}: Pick<Checked, 'queries' | 'checks'>): Pick<Checked, 'queries' | 'checks'> {
  const shownText = <T extends { sql: string }>(items: readonly T[]): T[] =>
    items.map((item) => ({ ...item, sql: statementWithoutSecrets(item.sql) }));
  return {
    queries: queries && {
      ...queries,
      broken: shownText(queries.broken),
      slower: shownText(queries.slower),
    },
    checks: checks.map((check) => ({ ...check, name: statementWithoutSecrets(check.name) })),
  };
}
