import { listed } from '../format.ts';
import type { CommandAttempt, CommandSection } from '../model/report.ts';

const LISTED = 3;
/** The port of most services outside, if the command's own is not known. */
const HTTPS_PORT = 443;

/**
 * Lists what the command tried to reach in vain, if that may be why it failed or never came to its clone: not if one of its statements
 * failed, unless it was the target itself.
 */
export function decidingAttempts(
  command: Pick<CommandSection, 'exitCode' | 'reachedClone' | 'failedWithoutError' | 'isolation'>,
): CommandAttempt[] {
  const { exitCode, reachedClone, failedWithoutError, isolation } = command;
  const attempts = isolation.attempts ?? [];
  const target = attempts.filter(({ reason }) => reason === 'target');
  if (exitCode === 0 && reachedClone) return [];
  if (target.length > 0) return target;
  return !reachedClone || failedWithoutError || exitCode === null ? attempts : [];
}

/** `it tried to reach api.example:443, which the sandbox does not allow`; all of them are of one kind, or none is the target. */
export function attemptWords(attempts: readonly CommandAttempt[]): string {
  const places = listed(attempts.map(placeOf), { atMost: LISTED });
  if (attempts.some(({ reason }) => reason === 'target'))
    return `it tried to reach the target itself at ${places}`;
  return `it tried to reach ${places}, which the sandbox does not allow`;
}

/** Says what lets the command through, or how it gets to its clone. */
export function attemptAdvice(attempts: readonly CommandAttempt[]): string {
  if (attempts.some(({ reason }) => reason === 'target'))
    return (
      'its connection is read from a place that was not rewritten: give it {safemigrate:url} in an argument or a variable, or ' +
      '{safemigrate:config FILE} for a file'
    );
  const flags = attempts.map((each) => `--sandbox-allow ${allowanceFor(each)}`).join(' ');
  const keys = attempts
    .filter(({ reason }) => reason !== 'postgres')
    .map((each) => `'${allowanceFor(each)}'`);
  const inFile = keys.length === 0 ? '' : `, or sandboxAllow: [${keys.join(', ')}] in a config file`;
  const guessed = attempts.some(({ port }) => port === null)
    ? `; ${HTTPS_PORT} stands for the port that it uses there`
    : '';
  return `if it needs that: ${flags}${inFile}${guessed}`;
}

/** `api.example:443`; without the port if it is not known. */
export function placeOf({ host, port }: CommandAttempt): string {
  return port === null ? host : `${host}:${port}`;
}

function allowanceFor({ host, port, reason }: CommandAttempt): string {
  return `${reason === 'postgres' ? 'postgres:' : ''}${host}:${port ?? HTTPS_PORT}`;
}
