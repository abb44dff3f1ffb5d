import { chooseMethod } from '../../src/clone/choose.ts';
import type { CloneOptions, MethodId } from '../../src/clone/clone-settings.ts';
import type { Clone, CloneContext, Possible } from '../../src/clone/method.ts';
import { inspectTarget } from '../../src/database/inspect.ts';
import type { RunEvent } from '../../src/events.ts';
import { claimRun } from '../../src/ownership/control-session.ts';
import type { AuditEntry } from '../../src/postgres/connection/audit.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { makeRehearsalPlan } from '../../src/rehearsal/plan.ts';
import { Scope } from '../../src/scope.ts';

export interface Cloning {
  readonly context: CloneContext;
  readonly scope: Scope;
  /** Everything that was sent so far, over all sessions. */
  readonly sent: AuditEntry[];
  readonly events: RunEvent[];
  assess(): Promise<Possible>;
  make(change?: Partial<Possible>): Promise<Clone>;
}

export interface CloningOptions extends Partial<Omit<CloneOptions, 'method' | 'source'>> {
  readonly method?: MethodId;
  readonly signal?: AbortSignal;
  readonly onSent?: (entry: AuditEntry) => void;
}

/** Nothing waits, and nothing that is left over lives long. */
const FOR_TESTS = { waitMs: 0, ttlMs: 600_000, maxCopyBytes: 2 ** 30 };

/** A run that has claimed the server and can clone the database at `url`; released afterwards, whatever happens. */
export async function withCloning<T>(
  url: string,
  options: CloningOptions,
  use: (cloning: Cloning) => Promise<T>,
): Promise<T> {
  const { method = 'template', signal: given, onSent, ...wanted } = options;
  const signal = given ?? new AbortController().signal;
  const sent: AuditEntry[] = [];
  const events: RunEvent[] = [];
  const audit = (entry: AuditEntry) => {
    sent.push(entry);
    onSent?.(entry);
  };
  const scope = new Scope();
  const work = async () => {
    const target = await inspectTarget(parseSettings(url, readEnvironment({}, '/')), 'the test', { audit });
    const claim = await claimRun(target, scope, { audit, signal });
    const context: CloneContext = {
      target,
      ...claim,
      options: { ...makeRehearsalPlan({ command: [] }).clone, ...FOR_TESTS, ...wanted },
      emit: (event) => void events.push(event),
      signal,
      audit,
      fail: (error) => {
        throw error;
      },
    };
    const choose = () => chooseMethod(context, method);
    return await use({
      context,
      scope,
      sent,
      events,
      assess: async () => (await choose()).assessment,
      make: async (change = {}) => {
        const { method, assessment } = await choose();
        return method.create(context, { ...assessment, ...change }, scope);
      },
    });
  };
  const [result] = await Promise.allSettled([work()]);
  const { failed } = await scope.release();
  if (result.status === 'rejected') throw result.reason;
  if (failed.length > 0) throw new Error(`not released: ${JSON.stringify(failed)}`);
  return result.value;
}

/** The same URL with another user or database, names percent-encoded. */
export function changedUrl(
  url: string,
  change: { user?: string; password?: string; database?: string },
): string {
  const { user, password, database } = change;
  const changed = new URL(url);
  if (user !== undefined) changed.username = encodeURIComponent(user);
  if (password !== undefined) changed.password = encodeURIComponent(password);
  if (database !== undefined) changed.pathname = `/${encodeURIComponent(database)}`;
  return changed.href;
}
