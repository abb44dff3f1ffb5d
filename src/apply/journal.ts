import { closeSync, openSync, writeSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { steadyDate } from '../clock.ts';
import { messageOf } from '../errors.ts';
import { type Liveness, livenessOf, type ProcessStamp, stampOf } from '../ownership/process-stamp.ts';
import { makeStateFolder, namesIn, stateFolder } from '../ownership/state-files.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { beginsAsIncidental } from '../postgres/sql/classify-statement.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Observed } from '../proxy/observed.ts';
import { SchemaWatch } from '../schema/schema-watch.ts';

/**
 * Records what an apply does, one line for each event. If the apply is killed there is no report: then the journal says what the
 * target has. Each line is written at once, so that it survives the process (not the machine). An apply that ends removes it.
 */
export interface JournalHead {
  readonly run: string;
  readonly startedAt: string;
  readonly target: { readonly host: string; readonly port: number; readonly database: string };
  readonly command: readonly string[];
  /** Fingerprints of the target's schema: before the command, and as the rehearsal left it on the clone. */
  readonly fingerprints: { readonly before: string; readonly rehearsed: string | null };
}

type Line =
  | { readonly head: JournalHead; readonly process: ProcessStamp | undefined }
  | { readonly sent: string; readonly transaction: number }
  | { readonly ended: number; readonly committed: boolean; readonly lost: boolean }
  | { readonly paused: string }
  | { readonly resumed: string }
  | { readonly over: string };

export interface Journal {
  /** Takes every event of the proxy. */
  readonly observe: (event: Observed) => void;
  /** Notes that a person paused the apply, or let it continue. */
  readonly paused: (isPaused: boolean) => void;
  /** Removes the journal and, if the command was applied, those of earlier applies to the target. */
  end(outcome: string): Promise<void>;
}

const SHOWN_CHARACTERS = 500;
const ENDING = '.journal';

function folder(env: NodeJS.ProcessEnv): string {
  return path.join(stateFolder(env), 'applies');
}

/** Opens a journal. @throws Node's error if it cannot be written. */
export async function openJournal(head: JournalHead, env: NodeJS.ProcessEnv): Promise<Journal> {
  const file = path.join(folder(env), `${head.run}${ENDING}`);
  await makeStateFolder(folder(env));
  // Kept open, since opening it for each statement took as long as sending one.
  const opened = openSync(file, 'a', 0o600);
  const write = (line: Line) => writeSync(opened, `${JSON.stringify(line)}\n`);
  const note = (line: Line) => {
    try {
      write(line);
    } catch {
      // A full disk must not end the apply.
    }
  };
  write({ head, process: await stampOf(process.pid) });
  return {
    observe: (event) => {
      if (event.type === 'begin') {
        const { sql, transaction } = event.statement;
        note({ sent: statementWithoutSecrets(sql.slice(0, SHOWN_CHARACTERS)), transaction });
      } else if (event.type === 'undone') {
        note({ ended: event.transaction, committed: false, lost: false });
      } else if (event.type === 'transaction-end') {
        const { transaction, outcome, lost } = event;
        note({ ended: transaction, committed: outcome === 'committed', lost });
      }
    },
    paused: (isPaused) => {
      const at = steadyDate().toISOString();
      note(isPaused ? { paused: at } : { resumed: at });
    },
    end: async (outcome) => {
      note({ over: outcome });
      closeSync(opened);
      await rm(file, { force: true });
      if (outcome !== 'applied') return;
      const earlier = (await interruptedApplies(env)).filter((each) => sameTarget(each.head, head));
      await Promise.all(earlier.map((each) => rm(path.join(folder(env), `${each.head.run}${ENDING}`))));
    },
  };
}

/** An apply without an end in its journal: it is running, or was killed. */
export interface InterruptedApply {
  readonly head: JournalHead;
  readonly state: Liveness;
  /** The time since which it is paused by a person (ISO 8601); null if it is not. */
  readonly pausedSince: string | null;
  /** Texts of statements whose transactions the server reported as committed. */
  readonly committed: readonly string[];
  /** Texts of statements whose transactions had not ended: the server has rolled them back, or committed the last one. */
  readonly open: readonly string[];
}

/** Lists the applies that run on this machine, and those that were killed. Changes nothing. */
export async function interruptedApplies(env: NodeJS.ProcessEnv = process.env): Promise<InterruptedApply[]> {
  const names = await namesIn(folder(env));
  const journals = names.filter((name) => name.endsWith(ENDING)).sort();
  const read = await Promise.all(journals.map((name) => readJournal(path.join(folder(env), name))));
  return read.filter((each) => each !== undefined);
}

async function readJournal(file: string): Promise<InterruptedApply | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const lines = text.split('\n').flatMap(lineOf);
  const [first] = lines;
  if (first === undefined || !('head' in first) || lines.some((line) => 'over' in line)) return undefined;
  const committed: string[] = [];
  const open = new Map<number, string[]>();
  let pausedSince: string | null = null;
  for (const line of lines) {
    if ('sent' in line) {
      const texts = open.get(line.transaction);
      if (texts) texts.push(line.sent);
      else open.set(line.transaction, [line.sent]);
    } else if ('ended' in line && !line.lost) {
      if (line.committed) committed.push(...(open.get(line.ended) ?? []).filter(mayWrite));
      open.delete(line.ended);
    } else if ('paused' in line) pausedSince ??= line.paused;
    else if ('resumed' in line) pausedSince = null;
  }
  const state = first.process === undefined ? 'unknown' : await livenessOf(first.process);
  return {
    head: first.head,
    state,
    pausedSince,
    committed,
    open: [...open.values()].flat().filter(mayWrite),
  };
}

function mayWrite(sql: string): boolean {
  return !beginsAsIncidental(sql);
}

/** The last line of a process that was killed may be incomplete. */
function lineOf(text: string): Line[] {
  try {
    return [JSON.parse(text) as Line];
  } catch {
    return [];
  }
}

function sameTarget({ target: one }: JournalHead, { target: other }: JournalHead): boolean {
  return one.host === other.host && one.port === other.port && one.database === other.database;
}

/** The schema that the target of a killed apply has now; `unread`: the reason why it was not read. */
export type SchemaAfterKill = 'as before' | 'as rehearsed' | 'otherwise' | { readonly unread: string };

export interface InspectedApply extends InterruptedApply {
  /** null while the apply runs. */
  readonly schema: SchemaAfterKill | null;
}

/** Inspects the killed applies. @param settings of the target that the user named: no other target is read. */
export async function inspectInterruptedApplies(
  settings: ConnectionSettings | undefined,
): Promise<InspectedApply[]> {
  const applies = await interruptedApplies();
  const fingerprint =
    applies.some(({ state }) => state !== 'alive') && settings && (await readFingerprint(settings));
  return applies.map((apply) => {
    if (apply.state === 'alive') return { ...apply, schema: null };
    const isNamed = settings && isTargetOf(settings, apply);
    if (!isNamed || !fingerprint)
      return { ...apply, schema: { unread: 'name its database with --url to have it read' } };
    if (typeof fingerprint !== 'string') return { ...apply, schema: fingerprint };
    const { before, rehearsed } = apply.head.fingerprints;
    const schema =
      fingerprint === before ? 'as before' : fingerprint === rehearsed ? 'as rehearsed' : 'otherwise';
    return { ...apply, schema };
  });
}

function isTargetOf(
  { hosts, database }: ConnectionSettings,
  { head: { target } }: InterruptedApply,
): boolean {
  return (
    database === target.database &&
    hosts.some(({ host, port }) => host === target.host && port === target.port)
  );
}

async function readFingerprint(settings: ConnectionSettings): Promise<string | { unread: string }> {
  const schema = new SchemaWatch();
  try {
    // The error of a plain session says best what is wrong with the connection.
    await (await openSession(settings, { purpose: 'list', readOnly: true })).close();
    await schema.before(settings);
    return await schema.fingerprint();
  } catch (error) {
    return { unread: messageOf(error) };
  } finally {
    await schema.close();
  }
}
