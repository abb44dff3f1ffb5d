import { locateTarget } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { plural } from '../format.ts';
import type { SwapSection } from '../model/report.ts';
import { claimRun, lostControl } from '../ownership/control-session.ts';
import { type OwnedDatabase, ownedDatabases } from '../ownership/owned.ts';
import { visitOrReopen } from '../ownership/reopen.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ignore } from '../rehearsal/slices.ts';
import { withScope } from '../rehearsal/with-scope.ts';
import { refusedSwap } from './exchange.ts';
import { closeDatabase } from './fence.ts';
import { undone, whileClosed } from './maintenance-window.ts';
import { LOCK_MS } from './open-again.ts';
import { swapObstacles } from './preflight.ts';
import type { SwapOptions } from './swap-options.ts';
import { countersArrive, type DatabaseWrites, rowsOfAnalyze, rowsWritten } from './writes.ts';

export interface RollbackOptions
  extends Pick<
    SwapOptions,
    | 'url'
    | 'urlEnv'
    | 'pgbouncer'
    | 'maxClosedMs'
    | 'allowStandbys'
    | 'emit'
    | 'audit'
    | 'signal'
    | 'env'
    | 'folder'
  > {
  /** Of the swap to take back; default: the last one. */
  readonly run?: string;
  /** Gives up what was written since the swap: it stays in the database that is kept. Default false. */
  readonly discardWrites?: boolean;
  readonly confirm: (target: string, original: string) => Promise<boolean>;
}

/**
 * Gives the original its name back, by the same fence and one transaction. The newer database is kept beside it.
 * @throws SafemigrateError `REFUSED` where there is no original; `TARGET_CHANGED` where the target could not be opened again.
 */
export async function rollback(options: RollbackOptions): Promise<SwapSection & { readonly target: string }> {
  const { emit = ignore, audit = ignore } = options;
  const around = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const located = locateTarget(options, around);
  const { result } = await withScope({ ...options, command: [] }, async (scope, stop) => {
    const { signal } = stop;
    const found = (message: string) => emit({ type: 'notice', message });
    const { target, session } = await inPhase(emit, 'connect', () =>
      visitOrReopen(located.settings, located.source, { audit, signal }, found),
    );
    await session.close();
    const claim = await claimRun(target, scope, { audit, signal });
    claim.control.onLost((reason) => stop.now(lostControl(reason)));
    const { control } = claim;
    const { name } = target.database;
    const original = await findOriginal(control, target.database, options.run);
    const obstacles = await swapObstacles(control, target, {
      standbysAreTakenCareOf: options.allowStandbys ?? false,
    });
    const reasons = obstacles.map(({ reason, wayOut }) => `${reason}: ${wayOut}`);
    if (reasons.length > 0) return { ...refusedSwap(reasons), target: name };
    if (!(await options.confirm(name, original.name)))
      return { ...refusedSwap(['it was not confirmed']), target: name };

    const inside = await openSession(target.settings, {
      ...claim,
      audit,
      signal,
      purpose: 'counters',
      readOnly: true,
    });
    const ofAnalyze = await rowsOfAnalyze(inside).finally(() => inside.close());
    const { maxClosedMs = Number.POSITIVE_INFINITY, pgbouncer = [] } = options;
    const closing = { maxClosedMs, pgbouncer: pgbouncer.map((url) => parseSettings(url, around)) };
    const fail = (reason: SafemigrateError) => stop.now(reason);
    const it = { target, ...claim, settings: located.settings, emit, audit, signal, fail };
    const swapped = await whileClosed(it, scope, closing, async () => {
      await countersArrive(target.server.versionNum);
      const now = await rowsWritten(control, target.database.oid, ofAnalyze);
      const reason = options.discardWrites ? undefined : writtenSince(original, now);
      if (reason) throw undone(reason);
      const { name: database, oid, mark } = original;
      const fence = await closeDatabase(control, { database, oid, timeoutMs: LOCK_MS, signal });
      // Closed since the swap, it has been written in by nobody.
      const written = await rowsWritten(control, oid, 0n);
      return { fence, comment: mark?.comment ?? null, written };
    });
    return { ...swapped, target: name };
  });
  return result;
}

async function findOriginal(
  control: Session,
  target: { readonly oid: number; readonly name: string },
  run: string | undefined,
): Promise<OwnedDatabase> {
  const kept = (await ownedDatabases(control, { sizes: false })).filter(
    ({ role, standing, mark }) => role === 'original' && standing === 'marked' && mark?.state === 'renamed',
  );
  const fitting = kept.filter(({ mark }) => mark?.successor === target.oid);
  const wanted = run === undefined ? fitting.at(-1) : fitting.find((each) => each.run === run);
  if (wanted) return wanted;
  const others = kept.map(({ name }) => name).join(', ') || 'none';
  throw new SafemigrateError(
    'REFUSED',
    `No original of ${target.name} is kept that it could be exchanged for.`,
    {
      hint: `Nothing was touched. Kept originals on this server: ${others}. \`safemigrate list\` shows them.`,
    },
  );
}

function writtenSince({ mark }: OwnedDatabase, now: DatabaseWrites): string | undefined {
  const flag = 'with --discard-writes it stays in the newer database, which is kept';
  if (mark?.writes === undefined) return `what was written since the swap is not known; ${flag}`;
  const rows = now.rows - BigInt(mark.writes);
  if (rows < 0n || now.since !== mark.countedSince)
    return `the server's counters began anew since the swap, so what was written is not known; ${flag}`;
  if (rows === 0n) return undefined;
  return `${plural(Number(rows), 'row')} ${rows === 1n ? 'was' : 'were'} written since the swap, and would be missing; ${flag}`;
}
