import { formatCount, listed } from '../format.ts';
import type { CommandAttempt, CommandIsolation, CommandSection } from '../model/report.ts';

/** Says why a client that verifies certificates left. */
export const UNTRUSTED_WORDS =
  "it verifies the server's certificate, and at the target's address the proxy has one of the run";

/** Says how such a client gets to trust it. */
export const TRUST_ADVICE =
  'set the variable from which it takes its authorities (PGSSLROOTCERT, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE) to any file of ' +
  'certificates: inside the sandbox that file has the authority of the run as well';

const LISTED = 3;
/** The port of most services outside, if the command's own is not known. */
const HTTPS_PORT = 443;

/**
 * Lists the places that the command tried to reach in vain, if that may be why it failed or never came to its clone: the target itself, or
 * any place if the command sent nothing to the server. Many tools report their use to a service, which decides nothing.
 */
export function decidingAttempts(
  command: Pick<CommandSection, 'exitCode' | 'reachedClone' | 'isolation'>,
  statements: readonly unknown[],
): CommandAttempt[] {
  const { exitCode, reachedClone, isolation } = command;
  const attempts = isolation.attempts ?? [];
  const target = attempts.filter(({ reason }) => reason === 'target');
  if (exitCode === 0 && reachedClone) return [];
  if (target.length > 0) return target;
  return statements.length === 0 ? attempts : [];
}

/**
 * `if its output names api.example:443, which the sandbox does not allow: …`; all of them are of one kind, or none is the target. The output
 * is not read: it goes past safemigrate to the terminal.
 */
export function attemptWords(attempts: readonly CommandAttempt[]): string {
  const places = listed(inOrder(attempts).map(placeOf), { atMost: LISTED });
  if (isTarget(attempts))
    return `it tried to reach the target itself at ${places}: its connection is read from a place that was not rewritten`;
  return `its own output says why; if that names ${places}, which the sandbox does not allow: ${flagsFor(attempts)}`;
}

/** Says what lets the command through, or how it gets to its clone. */
export function attemptAdvice(attempts: readonly CommandAttempt[]): string {
  if (isTarget(attempts))
    return (
      'name the clone where the command reads its connection: {safemigrate:url} in an argument or a variable, ' +
      '{safemigrate:config FILE} for a file'
    );
  const shown = inOrder(attempts).slice(0, LISTED);
  const keys = shown.filter(({ reason }) => reason !== 'postgres').map((each) => `'${allowanceFor(each)}'`);
  const inFile = keys.length === 0 ? '' : `, or permit: [${keys.join(', ')}] in a config file`;
  const isGuessed = shown.some(({ port }) => port === null);
  const guessed = isGuessed ? `; ${HTTPS_PORT} stands for a port that is not known` : '';
  return `if the output of the command names it, ${flagsFor(attempts)}${inFile}${guessed}`;
}

function isTarget(attempts: readonly CommandAttempt[]): boolean {
  return attempts.some(({ reason }) => reason === 'target');
}

function flagsFor(attempts: readonly CommandAttempt[]): string {
  return listed(
    inOrder(attempts).map((each) => `--permit ${allowanceFor(each)}`),
    { atMost: LISTED, separator: ' ' },
  );
}

/** Puts places with a port first: they are certain. */
function inOrder(attempts: readonly CommandAttempt[]): CommandAttempt[] {
  return attempts.toSorted((one, other) => Number(one.port === null) - Number(other.port === null));
}

/** Lists what the command tried to reach outside its sandbox, with how often; undefined if that is nothing. */
export function isolatedFrom({ attempts = [] }: CommandIsolation): string | undefined {
  if (attempts.length === 0) return undefined;
  const places = attempts.map((attempt) => {
    const often = attempt.count > 1 ? ` (${formatCount(attempt.count)} times)` : '';
    return `${placeOf(attempt)}${attempt.reason === 'target' ? ', the target itself' : ''}${often}`;
  });
  return `not allowed by the sandbox: ${listed(places)}`;
}

/** `api.example:443`; without the port if it is not known. */
function placeOf({ host, port }: CommandAttempt): string {
  return port === null ? host : `${host}:${port}`;
}

function allowanceFor({ host, port, reason }: CommandAttempt): string {
  return `${reason === 'postgres' ? 'postgres:' : ''}${host}:${port ?? HTTPS_PORT}`;
}
