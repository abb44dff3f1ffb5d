import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import type { ConnectionSettings, HostAndPort } from './connection-settings.ts';
import { isSocketFolder, TlsFailed } from './link.ts';

/** One failed login attempt. */
export interface ConnectionAttempt {
  readonly host: HostAndPort;
  readonly error: unknown;
}

/** The time limit for one address was reached. */
export class TimedOut extends Error {
  constructor(seconds: number) {
    super(`no answer within ${seconds} s`);
  }
}

type Explained = readonly [what: string, hint?: string | undefined];
type Explanation = (settings: ConnectionSettings, server: string) => Explained;

/** Servers' refusals of a login, by SQLSTATE. */
const REFUSALS: Readonly<Record<string, Explanation>> = {
  '28P01': ({ user }, server) => [
    `${server} does not accept the password of the role "${user}".`,
    'Check the user and the password in the URL; a % or @ in a password must be percent-encoded there.',
  ],
  '28000': ({ user, database }, server) => [
    `${server} does not let the role "${user}" into the database "${database}" from here.`,
    'Check that the role exists and may log in, that pg_hba.conf has a line for it, and whether that line asks for TLS (sslmode=require).',
  ],
  '3D000': ({ database }, server) => [
    `There is no database "${database}" on ${server}.`,
    'Check the name at the end of the URL.',
  ],
  '42501': ({ user, database }, server) => [
    `The role "${user}" lacks the CONNECT privilege on the database "${database}" on ${server}.`,
    'GRANT CONNECT ON DATABASE … TO … as its owner.',
  ],
  '53300': ({ user, database }, server) => [
    `${server} has no connection left for "${user}" in the database "${database}".`,
    'Close idle sessions, or raise max_connections, or the CONNECTION LIMIT of the role or the database.',
  ],
  '55000': ({ database }, server) => [
    `The database "${database}" on ${server} does not accept connections.`,
    'It has ALLOW_CONNECTIONS false (as template0 has), or it is being dropped.',
  ],
  '57P03': (_settings, server) => [
    `${server} is not accepting connections now: it is starting up, shutting down or recovering.`,
    'Try again in a moment.',
  ],
};

const NETWORK: Readonly<Record<string, Explanation>> = {
  ECONNREFUSED: (_settings, server) => [
    `Nothing accepts connections at ${server}.`,
    'Check that the server runs, and the host and the port in the URL.',
  ],
  ENOENT: (_settings, server) => [
    `There is no server's socket at ${server}.`,
    'Check that the server runs, and its unix_socket_directories; for TCP name a host.',
  ],
  EACCES: (_settings, server) => [`The socket at ${server} may not be used by this operating system user.`],
  ENOTFOUND: (_settings, server) => [
    `The host name of ${server} is not known.`,
    'Check its spelling, and whether this machine can resolve it (VPN, container network).',
  ],
  EAI_AGAIN: (_settings, server) => [
    `The host name of ${server} could not be resolved now.`,
    "Check this machine's DNS, and whether it is in the right network (VPN, container network).",
  ],
  ETIMEDOUT: (_settings, server) => [
    `${server} did not answer.`,
    'Check the network and firewalls in between.',
  ],
  EHOSTUNREACH: (_settings, server) => [
    `There is no way to ${server} in the network.`,
    'Check the network and VPN.',
  ],
  ENETUNREACH: (_settings, server) => [
    `There is no way to ${server} in the network.`,
    'Check the network and VPN.',
  ],
};

/** Failures of TLS, by Node's and OpenSSL's codes. */
const TLS_FAILURES: readonly (readonly [code: RegExp, what: string, hint: string])[] = [
  [
    /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/,
    'the certificate of the server or of its authority is not valid at this time',
    'Renew the certificate; check the clock of this machine.',
  ],
  [
    /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_.*)$/,
    "the server's certificate is not signed by an authority in sslrootcert",
    "Name the file with the certificate of the server's authority in sslrootcert.",
  ],
  [/^CERT_REVOKED$/, "the server's certificate is revoked", 'Check the list in sslcrl, and the server.'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    "the server's certificate is for another host",
    'Write the host as the certificate does; hostaddr can name another address of it.',
  ],
  [
    /_ALERT_(UNKNOWN_CA|.*CERTIFICATE.*|DECRYPT_ERROR)$/,
    'the server does not accept the client certificate (sslcert)',
    "Use a certificate that is valid and signed by an authority in the server's ssl_ca_file.",
  ],
  [
    /_(ALERT_PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS_AVAILABLE|VERSION_TOO_LOW)$/,
    'the server allows no version of TLS that the settings allow',
    "Compare ssl_min_protocol_version and ssl_max_protocol_version with the server's settings of these names.",
  ],
];

/** Describes the most informative of the failed attempts, then the others. */
export function connectionFailure(
  settings: ConnectionSettings,
  attempts: readonly ConnectionAttempt[],
): SafemigrateError {
  const main = mostTelling(attempts);
  if (!main) return new SafemigrateError('CONNECTION', 'The connection settings name no host.');
  const [what, hint] = explain(settings, main);
  // If the attempt without TLS was refused at the same host, the reason why TLS failed is reported as well.
  const others = attempts
    .filter((each) => each.host !== main.host || (each !== main && failedInTls(each.error)))
    .map(
      ({ host, error }) => `${nameHost(host)}: ${isTlsFailure(error) ? tlsReason(error) : firstLine(error)}`,
    );
  return new SafemigrateError('CONNECTION', [what, ...new Set(others)].join('\n'), {
    ...(hint === undefined ? {} : { hint }),
    cause: main.error,
  });
}

/**
 * Picks the last failure of one host, unless the last attempt only met a missing pg_hba.conf line or missing TLS:
 * then the attempt before it got further.
 */
function mostTelling(attempts: readonly ConnectionAttempt[]): ConnectionAttempt | undefined {
  const tells = ({ error }: ConnectionAttempt) =>
    sqlstateOf(error) !== undefined && sqlstateOf(error) !== '28000' && !(error instanceof TlsFailed);
  return (
    attempts.findLast(tells) ??
    attempts.findLast(({ error }) => sqlstateOf(error) !== undefined) ??
    attempts.at(-1)
  );
}

function explain(
  settings: ConnectionSettings,
  { host, error }: ConnectionAttempt,
): readonly [what: string, hint?: string | undefined] {
  const server = nameHost(host);
  const sqlstate = sqlstateOf(error);
  const refusal = sqlstate === undefined ? undefined : REFUSALS[sqlstate];
  if (refusal) {
    const [what, hint] = refusal(settings, server);
    return [`${what} It says: ${firstLine(error)}`, hint];
  }
  if (sqlstate !== undefined) return [`${server} refuses the connection: ${firstLine(error)}`];
  if (error instanceof TimedOut)
    return [
      `${server}: ${error.message}.`,
      'Check the host, the port and firewalls in between; connect_timeout in the URL allows more time.',
    ];
  if (isTlsFailure(error)) return explainTls(settings, server, error);
  const known = NETWORK[nodeCode(error)];
  return known ? known(settings, server) : [`${server} cannot be connected to: ${firstLine(error)}`];
}

function explainTls({ sslmode }: ConnectionSettings, server: string, error: Error): Explained {
  if (error instanceof TlsFailed && error.unsupported)
    return [
      `${server} does not offer TLS, and sslmode=${sslmode} asks for it.`,
      'Use sslmode=prefer or disable if that is fine here.',
    ];
  const hint = knownTlsFailure(error)?.[2];
  return [
    `The encrypted connection to ${server} failed: ${tlsReason(error)}.`,
    hint ?? 'Check sslrootcert, sslcert and sslkey, and the versions of TLS that the server allows.',
  ];
}

/** TLS 1.3 tells a client only after the handshake, at its first read, that its certificate is not accepted. */
function isTlsFailure(error: unknown): error is Error {
  return error instanceof TlsFailed || nodeCode(error).startsWith('ERR_SSL_');
}

function failedInTls(error: unknown): boolean {
  return isTlsFailure(error) && !(error instanceof TlsFailed && error.unsupported);
}

/** Describes the failure, with the words of OpenSSL or Node. */
function tlsReason(error: Error): string {
  const known = knownTlsFailure(error);
  return known ? `${known[1]} (${opensslWords(error)})` : opensslWords(error);
}

function knownTlsFailure(error: Error) {
  return TLS_FAILURES.find(([code]) => code.test(nodeCode(error)));
}

/** `tlsv1 alert unknown ca`, out of `80…:error:0A000418:SSL routines:ssl3_read_bytes:tlsv1 alert unknown ca:../deps/…`. */
function opensslWords(error: Error): string {
  return /:error:[^:]*:[^:]*:[^:]*:([^:]+)/.exec(error.message)?.[1] ?? firstLine(error);
}

/** Formats an address: `db.example.org:5432`, `[::1]:5432` or `/var/run/postgresql (port 5432)`. */
export function nameHost({ host, port }: HostAndPort): string {
  if (isSocketFolder(host)) return `${host} (port ${port})`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function nodeCode(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
}

function firstLine(error: unknown): string {
  return messageOf(error).split('\n', 1)[0] ?? '';
}
