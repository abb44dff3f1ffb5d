import { closeSync, openSync, writeSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { statementWithoutSecrets } from '../observe/statement-secrets.ts';
import { type Liveness, livenessOf, type ProcessStamp, stampOf } from '../ownership/process-stamp.ts';
import { namesIn, stateFolder } from '../ownership/state-files.ts';
import { beginsAsIncidental } from '../postgres/sql/classify-statement.ts';
import type { Observed } from '../proxy/observed.ts';

/**
 * What an apply has done so far, a line for each event, for the case that it is killed: then there is no report, and this
 * says what the target has. Written at once, so that it outlives the process (not the machine). An apply that comes to its
 * end says so in the last line; its report tells the rest.
 */
export interface JournalHead {
  readonly run: string;
  readonly startedAt: string;
  readonly target: { readonly host: string; readonly port: number; readonly database: string };
  readonly command: readonly string[];
  /** Of the target's schema: before the command, and as the rehearsal led to it. */
  readonly fingerprints: { readonly before: string; readonly rehearsed: string | null };
}

type Line =
  | { readonly head: JournalHead; readonly process: ProcessStamp | undefined }
  | { readonly sent: string; readonly transaction: number }
  | { readonly ended: number; readonly committed: boolean; readonly lost: boolean }
  | { readonly over: string };

export interface Journal {
  /** To be given every event of the proxy. */
  readonly observe: (event: Observed) => void;
  /** With it the journal is of no more use; where the target is as asked, neither are those of earlier applies to it. */
  over(outcome: string): Promise<void>;
}

const SHOWN_CHARACTERS = 500;
const ENDING = '.journal';

function folder(env: NodeJS.ProcessEnv): string {
  return path.join(stateFolder(env), 'applies');
}

/** @throws Node's error where it cannot be written: better before the command than after it. */
export async function openJournal(head: JournalHead, env: NodeJS.ProcessEnv): Promise<Journal> {
  const file = path.join(folder(env), `${head.run}${ENDING}`);
  await mkdir(folder(env), { recursive: true, mode: 0o700 });
  // Kept open: opening it for each statement took as long as sending one.
  const opened = openSync(file, 'a', 0o600);
  const write = (line: Line) => writeSync(opened, `${JSON.stringify(line)}\n`);
  const note = (line: Line) => {
    try {
      write(line);
    } catch {
      // A full disk must not end what the journal is about.
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
    over: async (outcome) => {
      note({ over: outcome });
      closeSync(opened);
      await rm(file, { force: true });
      if (outcome !== 'applied') return;
      const earlier = (await cutOffApplies(env)).filter((each) => sameTarget(each.head, head));
      await Promise.all(earlier.map((each) => rm(path.join(folder(env), `${each.head.run}${ENDING}`))));
    },
  };
}

export interface CutOffApply {
  readonly head: JournalHead;
  readonly state: Liveness;
  /** Texts of statements whose transactions the server said were committed. */
  readonly committed: readonly string[];
  /** Of those that had not ended: the server has rolled them back, or committed the last of them. */
  readonly open: readonly string[];
}

/** Applies that are at work on this machine, and those that were killed at it. Changes nothing. */
export async function cutOffApplies(env: NodeJS.ProcessEnv = process.env): Promise<CutOffApply[]> {
  const names = await namesIn(folder(env));
  const journals = names.filter((name) => name.endsWith(ENDING)).sort();
  const read = await Promise.all(journals.map((name) => readJournal(path.join(folder(env), name))));
  return read.filter((each) => each !== undefined);
}

async function readJournal(file: string): Promise<CutOffApply | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const lines = text.split('\n').flatMap(lineOf);
  const [first] = lines;
  if (first === undefined || !('head' in first) || lines.some((line) => 'over' in line)) return undefined;
  const committed: string[] = [];
  const open = new Map<number, string[]>();
  for (const line of lines) {
    if ('sent' in line) {
      const texts = open.get(line.transaction);
      if (texts) texts.push(line.sent);
      else open.set(line.transaction, [line.sent]);
    } else if ('ended' in line && !line.lost) {
      if (line.committed) committed.push(...(open.get(line.ended) ?? []).filter(doesSomething));
      open.delete(line.ended);
    }
  }
  const state = first.process === undefined ? 'unknown' : await livenessOf(first.process);
  return { head: first.head, state, committed, open: [...open.values()].flat().filter(doesSomething) };
}

function doesSomething(sql: string): boolean {
  return !beginsAsIncidental(sql);
}

/** The last line of a process that was killed may be half there. */
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
