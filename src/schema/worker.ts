import { parentPort } from 'node:worker_threads';
import { SafemigrateError, sqlstateOf } from '../errors.ts';
import type { SchemaChange } from '../model/report.ts';
import type { AuditEntry } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { readLinks } from './affected-relations.ts';
import { type Comparison, changesBetween, compareWith, fingerprint } from './compare-schemas.ts';
import { getReadyToAsk } from './extraction.ts';
import { type Helper, type Snapshot, takeSnapshot } from './schema-facts.ts';

/**
 * The thread that reads and compares schemas: both stall an event loop for half a second where there are
 * 10,000 tables, and the proxy must keep time. It lives as long as the run, because the facts of the schema before
 * are too many to be sent around.
 */
export type Job = { readonly run?: string } & (
  | { readonly kind: 'before'; readonly settings: ConnectionSettings }
  | { readonly kind: 'fingerprint' }
  | { readonly kind: 'after'; readonly inUse: boolean }
  | { readonly kind: 'describe'; readonly settings: ConnectionSettings }
);

/** There is room for a second session in the database that is being read. */
export type Room = { readonly kind: 'room' };

export interface WorkerAnswers {
  before: null;
  fingerprint: string;
  after: Comparison;
  describe: SchemaChange[];
}

export type Message =
  | { readonly type: 'audit'; readonly entry: AuditEntry }
  /** Most of the database is read: there is room for a session of somebody else's. */
  | { readonly type: 'read' }
  /** Nothing of ours is connected to the database any more. */
  | { readonly type: 'left' }
  | { readonly type: 'done'; readonly value: WorkerAnswers[Job['kind']] }
  | { readonly type: 'failed'; readonly failure: Failure };

/** An error as plain data: classes do not survive between threads. */
export interface Failure {
  /** null for a failure that nobody foresaw. */
  readonly code: SafemigrateError['code'] | null;
  readonly message: string;
  readonly hint?: string;
  readonly sqlstate?: string;
  readonly stack?: string;
}

const STATEMENT_TIMEOUT_MS = 300_000;

const port = parentPort;
if (port) {
  // It fails where pg-delta asks for more than it was told: then it does so on the server as well, and says so there.
  getReadyToAsk().catch(() => {});
  let watched: ConnectionSettings | undefined;
  let before: Snapshot | undefined;
  let makeRoom = () => {};
  const post = (message: Message) => port.postMessage(message);
  port.on('message', (job: Job | Room) => {
    if (job.kind === 'room') return makeRoom();
    answer(job).then(
      (value) => {
        post({ type: 'done', value });
      },
      (error: unknown) => post({ type: 'failed', failure: failureOf(error) }),
    );
  });

  async function answer(job: Job): Promise<WorkerAnswers[Job['kind']]> {
    if (job.kind === 'fingerprint') {
      if (!before) throw notReadBefore(job);
      return await fingerprint(before);
    }
    if (job.kind === 'before') watched = job.settings;
    const settings = job.kind === 'after' ? watched : job.settings;
    if (!settings) throw notReadBefore(job);
    const open = (readOnly: boolean) =>
      openSession(settings, {
        purpose: 'schema',
        ...(job.run === undefined ? {} : { run: job.run }),
        readOnly,
        statementTimeoutMs: STATEMENT_TIMEOUT_MS,
        audit: (entry) => post({ type: 'audit', entry }),
      });
    const room = new Promise<void>((resolve) => {
      makeRoom = resolve;
    });
    // Only the comparison has renames to take back.
    const session = await open(job.kind !== 'after' || job.inUse);
    try {
      return await carryOut(job, session, { room, open: () => open(true) });
    } finally {
      await session.close();
    }
  }

  async function carryOut(
    job: Exclude<Job, { kind: 'fingerprint' }>,
    session: Session,
    helper: Helper,
  ): Promise<WorkerAnswers[Job['kind']]> {
    if (job.kind === 'before') {
      const read = await takeSnapshot(session, { helper });
      before = read;
      setTimeout(() => makeReadyToCompare(read), 0);
      return null;
    }
    if (!before) throw notReadBefore(job);
    if (job.kind === 'after') {
      const onRead = () => post({ type: 'read' });
      const leave = async () => {
        await session.close();
        post({ type: 'left' });
      };
      return await compareWith(before, session, { helper, inUse: job.inUse, onRead, leave });
    }
    return await changesBetween(before, await takeSnapshot(session));
  }
}

/** While the command starts. A failure is told where what it makes is needed. */
function makeReadyToCompare(before: Snapshot): void {
  try {
    readLinks(before.answers);
  } catch {}
  // Of many relations it takes so long that the command would notice.
  if (!before.marks) fingerprint(before).catch(() => {});
}

function notReadBefore({ kind }: Job): Error {
  return new Error(`${kind}: the schema before the command was not read`);
}

function failureOf(error: unknown): Failure {
  const plain = error instanceof Error ? error : new Error(String(error));
  const sqlstate = sqlstateOf(error);
  return {
    code: error instanceof SafemigrateError ? error.code : sqlstate === undefined ? null : 'SERVER',
    message: plain.message,
    ...(error instanceof SafemigrateError && error.hint !== undefined ? { hint: error.hint } : {}),
    ...(sqlstate === undefined ? {} : { sqlstate }),
    ...(plain.stack === undefined ? {} : { stack: plain.stack }),
  };
}
