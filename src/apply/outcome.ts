import { memoryWords } from '../format.ts';
import type { ApplySection } from '../model/report.ts';

/** Facts about an apply after its command has ended. */
export interface ApplyFacts {
  readonly command: NonNullable<ApplySection['command']>;
  readonly reached: boolean;
  /** The target's schema differs from the one before the command; null if it could not be read. */
  readonly schemaChanged: boolean | null;
  readonly schemaEqual: boolean | null;
  readonly differences: readonly string[];
  readonly committed: ApplySection['committed'];
  /** Objects that this run has left unusable, and the rehearsal has not. */
  readonly leftovers: ApplySection['leftovers'];
  /** Texts of statements that failed, but not in the rehearsal, and were not sent again with success. */
  readonly failedOnlyHere: readonly string[];
  /** Number of the command's sessions that still work. */
  readonly stillRunning: number;
  /** --expect changes: without any change it has failed. */
  readonly mustChange: boolean;
  /** Why the run ended the command early: a lost connection, `safemigrate abort`. */
  readonly aborted: string | null;
  /** How the server differs from the one at the start. */
  readonly moved: string | null;
  /** Why the target could not be read afterwards. */
  readonly unreadable: string | null;
}

const SHOWN = 5;

/**
 * Decides the outcome, and says why. Anything that is not known counts as a change.
 *
 *   failed    nothing of the command stays
 *   partly    something stays, or may, and it is not what was asked for
 *   applied   the command succeeded, the schema is the one that was rehearsed, and no statement failed that had not failed there
 */
export function decideOutcome(facts: ApplyFacts): Pick<ApplySection, 'outcome' | 'reasons'> {
  const reasons = reasonsFor(facts);
  if (reasons.length === 0) return { outcome: 'applied', reasons };
  const untouched =
    facts.committed.length === 0 &&
    facts.schemaChanged === false &&
    facts.stillRunning === 0 &&
    facts.moved === null &&
    facts.unreadable === null;
  return { outcome: untouched ? 'failed' : 'partly', reasons };
}

function reasonsFor(facts: ApplyFacts): string[] {
  const { command, schemaEqual, leftovers, committed } = facts;
  const unknown = committed.filter(({ outcome }) => outcome === 'unknown');
  return [
    ...(facts.unreadable === null ? [] : [`the target could not be read afterwards: ${facts.unreadable}`]),
    ...(facts.moved === null ? [] : [facts.moved]),
    ...(facts.aborted === null ? [] : [facts.aborted]),
    ...(unknown.length === 0
      ? []
      : [
          `the connection was lost before the server answered, and it is not known whether ${unknown.length === 1 ? 'this' : 'these'} ` +
            `stayed: ${listed(unknown.map(({ sql }) => sql))}`,
        ]),
    ...(facts.stillRunning === 0
      ? []
      : [`${facts.stillRunning} of the command's sessions still work in the target`]),
    ...commandReasons(command),
    ...(command.exitCode === 0 && !facts.reached ? ['the command never connected to the target'] : []),
    ...(facts.mustChange && command.exitCode === 0 && committed.length === 0 && facts.schemaChanged === false
      ? ['the command ended with exit code 0 and changed nothing, and --expect changes asks for a change']
      : []),
    ...(command.exitCode === 0 && facts.failedOnlyHere.length > 0
      ? [
          `the command ended with exit code 0 although statements failed that had not failed in the rehearsal: ${listed(facts.failedOnlyHere)}`,
        ]
      : []),
    ...(schemaEqual === false && command.exitCode === 0
      ? [`the schema is not the one that was rehearsed: ${listed(facts.differences)}`]
      : []),
    ...(schemaEqual === null && facts.unreadable === null
      ? ['the schema could not be compared with the one that was rehearsed']
      : []),
    ...leftovers.map(({ kind, object }) => `it left an object that is not usable: ${kind} ${object}`),
  ];
}

function commandReasons(command: ApplyFacts['command']): string[] {
  const { exitCode, signal, timedOut } = command;
  if (timedOut) return ['the command was stopped by the time limit'];
  if (signal !== null) return [`the command was ended by ${signal}${memoryWords(command)}`];
  return exitCode === 0
    ? []
    : [`the command failed with exit code ${exitCode ?? 'unknown'}${memoryWords(command)}`];
}

function listed(items: readonly string[]): string {
  const more = items.length > SHOWN ? `, and ${items.length - SHOWN} more` : '';
  return items.slice(0, SHOWN).join(', ') + more;
}
