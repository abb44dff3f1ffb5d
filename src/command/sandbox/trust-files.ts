import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';

// A client that verifies the server's certificate reads the authorities that it trusts from a file, which is replaced inside the sandbox by
// one that has the run's authority as well.

/** Variables that name such a file. */
const NAMED_BY = ['PGSSLROOTCERT', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE'];

/** The files of Debian and of Red Hat, and libpq's own in the home folder. */
const OF_SYSTEM = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
];
const OF_LIBPQ = '.postgresql/root.crt';

/** Lists the files that exist of those from which a command may read whom to trust. */
export function filesOfAuthorities(
  environments: readonly Readonly<Record<string, string>>[],
  connections: readonly ConnectionSettings[],
  folder: string,
): string[] {
  const named = environments.flatMap((env) => [
    ...NAMED_BY.map((name) => env[name] ?? ''),
    ...(env.HOME ? [path.join(env.HOME, OF_LIBPQ)] : []),
  ]);
  const given = connections.map(({ parameters }) => parameters.sslrootcert ?? '');
  const files = [...named, ...given, ...OF_SYSTEM].filter((file) => file !== '');
  return [...new Set(files.flatMap((file) => realFile(path.resolve(folder, file))))];
}

/** Returns a file of authorities with one more. */
export function withAuthority(file: string, authority: string): string {
  return `${readFileSync(file, 'utf8').trimEnd()}\n${authority}`;
}

function realFile(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').includes('-----BEGIN CERTIFICATE-----') ? [realpathSync(file)] : [];
  } catch {
    return [];
  }
}
