import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { makeRunCertificate } from '../../../../src/command/sandbox/run-certificate.ts';

// Read by OpenSSL, as it is part of Node.js.
describe('the certificate of a run', () => {
  const made = makeRunCertificate(['db.example', '10.1.2.3', '::1', '2001:db8::7:1', 'localhost']);
  const [cert, ca] = [new X509Certificate(made.cert), new X509Certificate(made.ca)];

  test('is signed by its authority, which signs itself', () => {
    expect(cert.verify(ca.publicKey)).toBe(true);
    expect(cert.checkIssued(ca)).toBe(true);
    expect(ca.verify(ca.publicKey)).toBe(true);
    expect([cert.ca, ca.ca]).toEqual([false, true]);
    expect(() => createSecureContext({ key: made.key, cert: made.cert, ca: made.ca })).not.toThrow();
  });

  test.each(['db.example', 'localhost'])('names %s', (host) => {
    expect(cert.checkHost(host)).toBe(host);
  });

  test.each(['10.1.2.3', '::1', '2001:db8::7:1'])('names the address %s', (address) => {
    expect(cert.checkIP(address)).toBe(address);
  });

  test('names nothing else, and is valid for a month', () => {
    expect(cert.checkHost('other.example')).toBeUndefined();
    expect(cert.checkIP('10.1.2.4')).toBeUndefined();
    const days = (Date.parse(cert.validTo) - Date.now()) / 86_400_000;
    expect(Date.parse(cert.validFrom)).toBeLessThan(Date.now());
    expect(Math.round(days)).toBe(30);
  });

  test('is another one for each run', () => {
    const other = makeRunCertificate(['db.example']);
    expect(other.key).not.toBe(made.key);
    expect(new X509Certificate(other.cert).verify(ca.publicKey)).toBe(false);
  });
});
