import type { ApplySection } from '../model/report.ts';

/** What is known of an apply once the command has ended. */
export interface Ended {
  readonly command: NonNullable<ApplySection['command']>;
  readonly reached: boolean;
  /** Whether the target's schema is another one than before; null where it could not be read. */
  readonly schemaChanged: boolean | null;
  readonly schemaEqual: boolean | null;
  readonly differences: readonly string[];
  readonly committed: ApplySection['committed'];
  /** Left by this run, and not by the rehearsal. */
  readonly leftovers: ApplySection['leftovers'];
  /** Sessions of the command's that still work. */
  readonly stillRunning: number;
  /** What ended the command before its time: a lost connection, the guard. */
  readonly aborted: string | null;
  /** The server is not the one that it was at the start. */
  readonly moved: string | null;
  /** Why the target could not be looked at afterwards. */
  readonly unreadable: string | null;
}

const TOLD = 5;

/**
 * What the target is now, and why. Whatever is not known counts as a change: nobody may rely on it.
 *
 *   failed    nothing of the command stays
 *   partly    something stays, or may, and it is not what was asked for
 *   applied   the command succeeded, and the schema is the one that was rehearsed
 */
export function decideOutcome(ended: Ended): Pick<ApplySection, 'outcome' | 'reasons'> {
  const reasons = reasonsFor(ended);
  if (reasons.length === 0) return { outcome: 'applied', reasons };
  const untouched =
    ended.committed.length === 0 &&
    ended.schemaChanged === false &&
    ended.stillRunning === 0 &&
    ended.moved === null &&
    ended.unreadable === null;
  return { outcome: untouched ? 'failed' : 'partly', reasons };
}

function reasonsFor(ended: Ended): string[] {
  const { command, schemaEqual, leftovers, committed } = ended;
  const unknown = committed.filter(({ outcome }) => outcome === 'unknown');
  return [
    ...(ended.unreadable === null
      ? []
      : [`the target could not be looked at afterwards: ${ended.unreadable}`]),
    ...(ended.moved === null ? [] : [ended.moved]),
    ...(ended.aborted === null ? [] : [ended.aborted]),
    ...(unknown.length === 0
      ? []
      : [
          `the connection broke before the server answered, and whether ${unknown.length === 1 ? 'this' : 'these'} stayed is not ` +
            `known: ${listed(unknown.map(({ sql }) => sql))}`,
        ]),
    ...(ended.stillRunning === 0
      ? []
      : [`${ended.stillRunning} of the command's sessions still work in the target`]),
    ...commandReasons(command),
    ...(command.exitCode === 0 && !ended.reached ? ['the command never connected to the target'] : []),
    ...(schemaEqual === false && command.exitCode === 0
      ? [`the schema is not the one that was rehearsed: ${listed(ended.differences)}`]
      : []),
    ...(schemaEqual === null && ended.unreadable === null
      ? ['the schema could not be compared with the one that was rehearsed']
      : []),
    ...leftovers.map(({ kind, object }) => `it left an object that is not usable yet: ${kind} ${object}`),
  ];
}

function commandReasons({ exitCode, signal, timedOut }: Ended['command']): string[] {
  if (timedOut) return ['the command was stopped by the time limit'];
  if (signal !== null) return [`the command was ended by ${signal}`];
  return exitCode === 0 ? [] : [`the command failed with exit code ${exitCode ?? 'unknown'}`];
}

function listed(items: readonly string[]): string {
  const more = items.length > TOLD ? `, and ${items.length - TOLD} more` : '';
  return items.slice(0, TOLD).join(', ') + more;
}
