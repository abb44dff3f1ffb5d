import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type ConnectionOptions,
  checkServerIdentity,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type SecureContextOptions,
  type SecureVersion,
} from 'node:tls';
import { codeOf, messageOf, SafemigrateError } from '../../errors.ts';
import type { ConnectionSettings, HostAndPort } from './connection-settings.ts';
import { homeFolder } from './environment.ts';

/** Files of the authorities that the system trusts: on Debian, on Red Hat, and on others and macOS. */
const SYSTEM_AUTHORITIES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
];

/** Reasons why the client's files cannot be used, by OpenSSL's code. */
const UNUSABLE_FILES: Readonly<Record<string, readonly [what: string, hint: string]>> = {
  ERR_OSSL_BAD_DECRYPT: [
    'sslkey is encrypted, and sslpassword does not decrypt it',
    'Give the password of the key with sslpassword=… in the URL.',
  ],
  ERR_OSSL_X509_KEY_VALUES_MISMATCH: [
    'sslkey is not the key of the certificate in sslcert',
    'Name the two files that belong together.',
  ],
};

/**
 * Returns Node's options for a TLS connection to one host, from the parameters and files that libpq would use.
 * @throws SafemigrateError `CONFIGURATION` if a needed file is missing or unreadable.
 */
export function tlsOptions(settings: ConnectionSettings, { host }: HostAndPort): ConnectionOptions {
  const { parameters, sslmode } = settings;
  const authorities = trustedAuthorities(settings);
  const verifies = sslmode === 'verify-ca' || sslmode === 'verify-full';
  if (verifies && authorities === undefined)
    throw new SafemigrateError(
      'CONFIGURATION',
      `sslmode=${sslmode} needs the certificate of the authority that signed the server's certificate, and there is none.`,
      { hint: 'Name it with sslrootcert=FILE (PGSSLROOTCERT), or use sslrootcert=system.' },
    );
  return {
    secureContext: secureContext(parameters, authorities),
    ...(parameters.sslnegotiation === 'direct' ? { ALPNProtocols: ['postgresql'] } : {}),
    // Like libpq: if a root certificate is present, it is used for checking, whatever the mode.
    rejectUnauthorized: authorities !== undefined,
    checkServerIdentity: (_host, certificate) =>
      sslmode === 'verify-full' ? checkServerIdentity(host, certificate) : undefined,
  };
}

type Parameters = ConnectionSettings['parameters'];

function secureContext(parameters: Parameters, authorities: readonly Buffer[] | undefined): SecureContext {
  const options: SecureContextOptions = {
    ...clientCertificate(parameters),
    crl: revocationLists(parameters),
    minVersion: secureVersion(parameters.ssl_min_protocol_version),
    maxVersion: secureVersion(parameters.ssl_max_protocol_version),
  };
  if (authorities) options.ca = [...authorities];
  try {
    return createSecureContext(options);
  } catch (error) {
    const [what, hint] = UNUSABLE_FILES[reasonOf(error, options)] ?? [
      `the files for TLS cannot be used: ${messageOf(error)}`,
      'Check sslcert, sslkey and sslcrl.',
    ];
    throw new SafemigrateError('CONFIGURATION', `${what}.`, { hint, cause: error });
  }
}

/** Returns OpenSSL's code. Of 256 wrong passwords one decrypts a key to bytes with a valid end, which OpenSSL then cannot read as a key. */
function reasonOf(error: unknown, { key }: SecureContextOptions): string {
  const code = codeOf(error);
  const encrypted = Buffer.isBuffer(key) && key.includes('ENCRYPTED');
  return code === 'ERR_OSSL_UNSUPPORTED' && encrypted ? 'ERR_OSSL_BAD_DECRYPT' : code;
}

/** Returns undefined if there is nothing to check the server's certificate with. */
function trustedAuthorities({ parameters }: ConnectionSettings): readonly Buffer[] | undefined {
  const named = parameters.sslrootcert;
  if (named === 'system') return systemAuthorities();
  if (named) return [readAuthorities(named, 'sslrootcert')];
  const usual = userFile('root.crt');
  return existsSync(usual) ? [readAuthorities(usual, 'the root certificate')] : undefined;
}

/** Returns what OpenSSL trusts on this machine, as libpq does; Node's own list knows no authority of a company. */
function systemAuthorities(): Buffer[] {
  // OpenSSL's own variable.
  const file = process.env.SSL_CERT_FILE || SYSTEM_AUTHORITIES.find((path) => existsSync(path));
  return file === undefined
    ? rootCertificates.map((each) => Buffer.from(each))
    : [readAuthorities(file, 'sslrootcert=system')];
}

function readAuthorities(path: string, what: string): Buffer {
  const text = readRequired(path, what);
  // OpenSSL ignores such a file, so that no server is trusted.
  if (!text.includes('CERTIFICATE-----'))
    throw new SafemigrateError('CONFIGURATION', `${what} holds no certificate: ${path}`);
  return text;
}

function clientCertificate(parameters: Parameters): SecureContextOptions {
  const certificate = parameters.sslcert || userFile('postgresql.crt');
  const key = parameters.sslkey || userFile('postgresql.key');
  if (parameters.sslcertmode === 'disable') return {};
  if (!parameters.sslcert && !(existsSync(certificate) && existsSync(key))) return {};
  return {
    cert: readRequired(certificate, 'sslcert'),
    key: readRequired(key, 'sslkey'),
    passphrase: parameters.sslpassword || undefined,
  };
}

/** Returns the lists of the file sslcrl and of all files in the folder sslcrldir. */
function revocationLists({ sslcrl, sslcrldir }: Parameters): Buffer[] {
  const inFolder = sslcrldir ? listRequired(sslcrldir).map((name) => join(sslcrldir, name)) : [];
  return [...(sslcrl ? [sslcrl] : []), ...inFolder].map((path) => readRequired(path, 'sslcrl'));
}

function listRequired(folder: string): string[] {
  return readable('sslcrldir', () => readdirSync(folder));
}

function userFile(name: string): string {
  return join(homeFolder(), '.postgresql', name);
}

function readRequired(path: string, what: string): Buffer {
  return readable(what, () => readFileSync(path.startsWith('~/') ? join(homeFolder(), path.slice(2)) : path));
}

function readable<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new SafemigrateError('CONFIGURATION', `${what} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function secureVersion(name: string | undefined): SecureVersion | undefined {
  if (!name) return undefined;
  const versions: readonly SecureVersion[] = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'];
  const version = versions.find((known) => known.toLowerCase() === name.toLowerCase());
  if (version === undefined)
    throw new SafemigrateError('CONFIGURATION', `"${name}" is not a version of TLS.`, {
      hint: 'Use TLSv1.2 or TLSv1.3.',
    });
  return version;
}
