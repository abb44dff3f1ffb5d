import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP, isIPv6 } from 'node:net';

// Node.js reads certificates and makes none. This writes the two that a run needs in DER (X.690, RFC 5280): an authority, whose
// key is forgotten at once, and the proxy's certificate.

/** The proxy's key and certificate, and the authority that clients have to trust, in PEM. */
export interface RunCertificate {
  readonly key: string;
  readonly cert: string;
  readonly ca: string;
}

const VALID_DAYS = 30;
const DAY_MS = 86_400_000;

/** Object identifiers in DER, without their tag. */
const OID = {
  ecdsaWithSha256: '2a8648ce3d040302',
  commonName: '550403',
  subjectKey: '551d0e',
  keyUsage: '551d0f',
  alternativeNames: '551d11',
  basicConstraints: '551d13',
  authorityKey: '551d23',
  extendedKeyUsage: '551d25',
  serverAuthentication: '2b06010505070301',
} as const;

/** Makes the certificate of a server with these names and addresses. */
export function makeRunCertificate(hosts: readonly string[]): RunCertificate {
  const [authority, server] = [newKey(), newKey()];
  const issuer = { name: 'safemigrate run', key: authority };
  const ca = certificate({ name: issuer.name, key: authority.publicKey }, issuer, [
    extension(OID.basicConstraints, der(0x30, TRUE), TRUE),
    extension(OID.keyUsage, der(0x03, [0x02, 0x04]), TRUE),
  ]);
  const names = hosts.map((host) =>
    isIP(host) === 0 ? der(0x82, Buffer.from(host)) : der(0x87, addressBytes(host)),
  );
  const cert = certificate({ name: 'safemigrate proxy', key: server.publicKey }, issuer, [
    extension(OID.basicConstraints, der(0x30)),
    extension(OID.keyUsage, der(0x03, [0x07, 0x80]), TRUE),
    extension(OID.extendedKeyUsage, der(0x30, oid(OID.serverAuthentication))),
    extension(OID.alternativeNames, der(0x30, ...names)),
  ]);
  const key = server.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  return { key, cert: pem(cert), ca: pem(ca) };
}

interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

const newKey = (): KeyPair => generateKeyPairSync('ec', { namedCurve: 'P-256' });

function certificate(
  subject: { readonly name: string; readonly key: KeyObject },
  issuer: { readonly name: string; readonly key: KeyPair },
  extensions: readonly Buffer[],
): Buffer {
  const algorithm = der(0x30, oid(OID.ecdsaWithSha256));
  const now = Date.now();
  const keys = [
    extension(OID.subjectKey, der(0x04, keyId(subject.key))),
    extension(OID.authorityKey, der(0x30, der(0x80, keyId(issuer.key.publicKey)))),
  ];
  const content = der(
    0x30,
    der(0xa0, der(0x02, [2])),
    der(0x02, [1], randomBytes(15)),
    algorithm,
    distinguishedName(issuer.name),
    der(0x30, time(now - DAY_MS), time(now + VALID_DAYS * DAY_MS)),
    distinguishedName(subject.name),
    subject.key.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, ...extensions, ...keys)),
  );
  return der(0x30, content, algorithm, der(0x03, [0], sign('sha256', content, issuer.key.privateKey)));
}

function der(tag: number, ...parts: readonly (Uint8Array | readonly number[])[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = body;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const TRUE = der(0x01, [0xff]);
const extension = (id: string, value: Buffer, critical: Uint8Array = Buffer.alloc(0)) =>
  der(0x30, oid(id), critical, der(0x04, value));
const distinguishedName = (name: string) =>
  der(0x30, der(0x31, der(0x30, oid(OID.commonName), der(0x0c, Buffer.from(name)))));
const keyId = (key: KeyObject) =>
  createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest();

/** UTCTime, which has two digits for the year. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\D/g, '').slice(2, 14);
  return der(0x17, Buffer.from(`${digits}Z`));
}

function addressBytes(host: string): number[] {
  if (!isIPv6(host)) return host.split('.').map(Number);
  const [head = '', tail] = new URL(`http://[${host}]`).hostname.slice(1, -1).split('::');
  const groups = (text = '') => text.split(':').filter((group) => group !== '');
  const [first, last] = [groups(head), groups(tail)];
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => '0');
  return [...first, ...zeros, ...last].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}

function pem(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
