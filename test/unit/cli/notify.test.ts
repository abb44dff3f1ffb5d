import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { notificationOf, notify } from '../../../src/cli/notify.ts';
import { sampleReport } from '../../helpers/reports.ts';

afterEach(() => vi.restoreAllMocks());

/** A receiver of notifications that answers with this status. */
async function receiver(status: number) {
  const bodies: string[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (data) => (body += data));
    request.on('end', () => {
      bodies.push(body);
      headers.push(request.headers);
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/hook`, bodies, headers, close: () => server.close() };
}

test('the verdict is sent as JSON of at most 2 kB, whatever the reasons', async () => {
  const { url, bodies, close } = await receiver(204);
  try {
    const reasons = Array.from({ length: 50 }, (_, n) => `reason ${n}: ${'ä'.repeat(1000)}`);
    await notify(sampleReport({ verdict: { pass: false, reasons } }), url);
    expect(bodies).toHaveLength(1);
    expect(Buffer.byteLength(bodies[0] ?? '')).toBeLessThanOrEqual(2048);
    expect(JSON.parse(bodies[0] ?? '')).toMatchObject({
      mode: 'rehearse',
      pass: false,
      outcome: null,
      database: 'shop',
      text: 'safemigrate rehearse of shop: did not pass',
    });
  } finally {
    close();
  }
});

test('short reasons are sent, and hazards are counted', () => {
  const report = sampleReport({ verdict: { pass: false, reasons: ['the command failed'] } });
  const { reasons, hazards } = notificationOf(report);
  expect(reasons).toEqual(['the command failed']);
  expect(hazards.errors + hazards.warnings + hazards.notices).toBe(
    report.hazards.filter(({ allowed }) => !allowed).length,
  );
});

/** An address where nobody listens any more. */
async function gone() {
  const { url, close } = await receiver(204);
  close();
  return { url, close: () => {} };
}

test.each([
  ['refuses it', () => receiver(500), /The notification was not sent: it answered 500/],
  ['is not there', gone, /The notification was not sent: .*ECONNREFUSED/],
])('a receiver that %s is printed, and fails nothing', async (_, start, words) => {
  const { url, close } = await start();
  const written: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  try {
    await notify(sampleReport(), url);
    expect(written.join('')).toMatch(words);
    expect(written.join('')).not.toContain(url);
  } finally {
    close();
  }
});

test('credentials in the address are sent, and neither they nor tokens are ever printed', async () => {
  const written: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  const { url, close, headers } = await receiver(204);
  try {
    const secret = (address: string) =>
      address.replace('://', '://u:SecNot10@').replace('/hook', '/hook/SecTok11?t=SecQ12');
    await notify(sampleReport({}), secret(url));
    expect(written).toEqual([]);
    expect(headers[0]?.authorization).toBe(`Basic ${Buffer.from('u:SecNot10').toString('base64')}`);
    await notify(sampleReport({}), secret(url).replace('http:', 'gopher:'));
    await notify(sampleReport({}), secret(url).replace('http://', ''));
    await notify(sampleReport({}), secret((await gone()).url));
    expect(written).toHaveLength(3);
    expect(written.join('')).not.toContain('Sec');
  } finally {
    close();
  }
});
