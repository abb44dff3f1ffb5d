import { commandWithoutSecrets } from '../command/command-secrets.ts';
import type { AppCheck, AppRun, Caveat } from '../model/report.ts';
import { messageWithoutValues } from '../observe/redact.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import type { Observed, Outcome, Statement } from '../proxy/observed.ts';
import type { App } from './locate-apps.ts';

/** One run of one release's checks. */
export interface AppAttempt extends AppRun {
  readonly passed: boolean;
  readonly reachedClone: boolean;
  readonly failures: AppCheck['failed'];
  readonly refused: AppCheck['refused'];
}

export interface TriedApp {
  readonly app: App;
  /** null: not tried. */
  readonly before: AppAttempt | null;
  readonly after: AppAttempt;
  /** The one of the two runs that failed, once more; null: both failed, or none. */
  readonly again: AppAttempt | null;
}

/** Statements that fail in consequence of an earlier one. */
const IN_FAILED_TRANSACTION = '25P02';
const MOST_FAILURES = 20;

/** Counts the statements of a run, and collects those that failed. */
export class FailureLog {
  readonly #failed = new Map<number, { readonly statement: Statement; readonly error: Outcome['error'] }>();
  #ended = 0;

  observe(event: Observed): void {
    if (event.type === 'undone') for (const { id } of event.statements) this.#failed.delete(id);
    if (event.type !== 'end') return;
    this.#ended += 1;
    const { statement, outcome } = event;
    const { error } = outcome;
    if (error && error.get('C') !== IN_FAILED_TRANSACTION)
      this.#failed.set(statement.id, { statement, error });
  }

  get ended(): number {
    return this.#ended;
  }

  /** The failed statements without their values, each once, the most frequent first. */
  failures(): AppCheck['failed'] {
    const found = new Map<string, AppCheck['failed'][number]>();
    for (const { statement, error } of this.#failed.values()) {
      const sqlstate = error?.get('C') ?? '';
      const message = messageWithoutValues({ sqlstate, message: error?.get('M') ?? '' });
      const sql = statement.note === null ? normalizeSql(statement.sql) : statement.sql;
      const key = keyOf({ sqlstate, sql });
      found.set(key, { sqlstate, message, sql, count: (found.get(key)?.count ?? 0) + 1 });
    }
    return [...found.values()].sort((one, other) => other.count - one.count);
  }
}

function keyOf({ sqlstate, sql }: Pick<AppCheck['failed'][number], 'sqlstate' | 'sql'>): string {
  return `${sqlstate} ${sql}`;
}

/** Describes the runs of one release's checks. */
export function sectionOf({ app, before, after, again }: TriedApp): AppCheck {
  const [failing, passing] = after.passed ? [before, after] : [after, before];
  const expected = new Set((passing?.passed ? passing.failures : []).map(keyOf));
  const failed = failing?.passed
    ? []
    : (failing?.failures ?? []).filter((each) => !expected.has(keyOf(each)));
  return {
    release: app.release,
    command: nameOfApp(app),
    before: before && runOf(before),
    after: runOf(after),
    result: resultOf({ before, after, again }, app.release),
    failed: failed.slice(0, MOST_FAILURES),
    refused: [...(before?.refused ?? []), ...after.refused].filter(
      ({ what }, at, all) => all.findIndex((each) => each.what === what) === at,
    ),
  };
}

/** Returns the command line without secrets. */
export function nameOfApp({ input, logins }: App): string {
  // The user gave the script of `sh -c`.
  return commandWithoutSecrets(input.argv, logins.logins).at(-1) ?? '';
}

function runOf({ exitCode, signal, timedOut, durationMs, statements }: AppRun): AppRun {
  return { exitCode, signal, timedOut, durationMs, statements };
}

type Passed = Pick<AppAttempt, 'passed'>;

/** Judges the release by its runs: only one that fails twice, and passes on the other clone, is about the schema. */
export function resultOf(
  { before, after, again }: { before: Passed | null; after: Passed; again: Passed | null },
  release: AppCheck['release'],
): AppCheck['result'] {
  if (before === null || before.passed === after.passed) return after.passed ? 'works' : 'fails either way';
  if (after.passed && release === 'old') return 'works';
  if (again?.passed) return 'unsteady';
  return after.passed ? 'needs migration' : 'breaks';
}

/** Names the runs that show nothing of the migration. */
export function appCaveats(tried: TriedApp): Caveat[] {
  const { app, before, after } = tried;
  const name = nameOfApp(app);
  const { result } = sectionOf(tried);
  if (!(after.reachedClone || before?.reachedClone))
    return [{ path: 'app', kind: 'unmeasured', reason: `${name} never connected to the clone` }];
  const reasons = {
    'fails either way': `${name} of the ${app.release} release fails without the migration too, and says nothing of it`,
    unsteady: `${name} of the ${app.release} release failed once and passed when it was run again on the same clone`,
  };
  const reason = result === 'unsteady' || result === 'fails either way' ? reasons[result] : undefined;
  return reason === undefined ? [] : [{ path: 'app', kind: 'estimate', reason }];
}
