import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, checkServerIdentity, rootCertificates, type SecureVersion } from 'node:tls';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { ConnectionSettings, HostAndPort } from './connection-settings.ts';

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
  const minVersion = secureVersion(parameters.ssl_min_protocol_version);
  const maxVersion = secureVersion(parameters.ssl_max_protocol_version);
  return {
    ...clientCertificate(parameters),
    ...(authorities === undefined ? {} : { ca: [...authorities] }),
    ...(parameters.sslcrl ? { crl: readRequired(parameters.sslcrl, 'sslcrl') } : {}),
    ...(minVersion ? { minVersion } : {}),
    ...(maxVersion ? { maxVersion } : {}),
    ...(parameters.sslnegotiation === 'direct' ? { ALPNProtocols: ['postgresql'] } : {}),
    // Like libpq: if a root certificate is present, it is used for checking, whatever the mode.
    rejectUnauthorized: authorities !== undefined,
    checkServerIdentity: (_host, certificate) =>
      sslmode === 'verify-full' ? checkServerIdentity(host, certificate) : undefined,
  };
}

/** Returns undefined if there is nothing to check the server's certificate with. */
function trustedAuthorities({ parameters }: ConnectionSettings): readonly (string | Buffer)[] | undefined {
  const named = parameters.sslrootcert;
  if (named === 'system') return rootCertificates;
  if (named) return [readRequired(named, 'sslrootcert')];
  const usual = userFile('root.crt');
  return existsSync(usual) ? [readRequired(usual, 'the root certificate')] : undefined;
}

function clientCertificate(parameters: ConnectionSettings['parameters']): ConnectionOptions {
  const certificate = parameters.sslcert || userFile('postgresql.crt');
  const key = parameters.sslkey || userFile('postgresql.key');
  if (parameters.sslcertmode === 'disable') return {};
  if (!parameters.sslcert && !(existsSync(certificate) && existsSync(key))) return {};
  return {
    cert: readRequired(certificate, 'sslcert'),
    key: readRequired(key, 'sslkey'),
    ...(parameters.sslpassword ? { passphrase: parameters.sslpassword } : {}),
  };
}

function userFile(name: string): string {
  return join(homedir(), '.postgresql', name);
}

function readRequired(path: string, what: string): Buffer {
  try {
    return readFileSync(path.startsWith('~/') ? join(homedir(), path.slice(2)) : path);
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
