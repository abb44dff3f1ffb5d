import { Duplex } from 'node:stream';
import { connect } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { type FirstBytes, readFirstBytes } from '../../../../src/command/sandbox/first-bytes.ts';

/** The first message of TLS, as Node's own client sends it. */
function clientHello(protocols: string[], servername = 'db.example'): Promise<Buffer> {
  return new Promise((resolve) => {
    const socket = new Duplex({
      read() {},
      write(chunk, _encoding, done) {
        resolve(chunk);
        done();
      },
    });
    const client = connect({ socket, servername, ALPNProtocols: protocols });
    client.on('error', () => {});
  });
}

const int32s = (...numbers: number[]) => {
  const bytes = Buffer.alloc(numbers.length * 4);
  numbers.forEach((each, index) => void bytes.writeUInt32BE(each, index * 4));
  return bytes;
};

function startup(version: number): Buffer {
  const text = Buffer.from('user\0me\0database\0shop\0\0');
  return Buffer.concat([int32s(8 + text.length, version), text]);
}

/** The same handshake in records of some bytes each. */
function inRecords(hello: Buffer, size: number): Buffer {
  const [header, message] = [hello.subarray(0, 3), hello.subarray(5)];
  const parts: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size);
    parts.push(header, Buffer.from([part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(parts);
}

/** What is found when more and more of the bytes are there: nothing else may be found before the end. */
function expectFound(bytes: Buffer, found: FirstBytes): void {
  const before = new Set<FirstBytes>();
  let first = bytes.length;
  for (let length = 0; length <= bytes.length; length++) {
    const now = readFirstBytes(bytes.subarray(0, length));
    if (now === 'undecided') expect(first, `undecided again at ${length}`).toBe(bytes.length);
    else if (first === bytes.length) first = length;
    before.add(now);
  }
  expect([...before].filter((each) => each !== 'undecided')).toEqual([found]);
  expect(readFirstBytes(bytes)).toBe(found);
}

describe("PostgreSQL's protocol is recognised, wherever its first bytes are cut", () => {
  test.each([
    ['a start-up packet', startup(0x0003_0000)],
    ['one of protocol 3.2', startup(0x0003_0002)],
    ['SSLRequest', int32s(8, 80_877_103)],
    ['GSSENCRequest', int32s(8, 80_877_104)],
    ['CancelRequest', int32s(16, 80_877_102, 1, 2)],
  ])('%s', (_, bytes) => expectFound(bytes, 'postgres'));

  test('TLS from the first byte, alone and among other protocols', async () => {
    expectFound(await clientHello(['postgresql']), 'postgres');
    expectFound(await clientHello(['h2', 'postgresql']), 'postgres');
  });

  test('in several records of TLS, of one byte each too', async () => {
    const hello = await clientHello(['postgresql']);
    for (const size of [1, 3, 100]) expectFound(inRecords(hello, size), 'postgres');
  });
});

describe('other protocols are not taken for it', () => {
  test.each([
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\nhost: a.example\r\n\r\n')],
    ['CONNECT', Buffer.from('CONNECT a.example:443 HTTP/1.1\r\n\r\n')],
    ['SSH', Buffer.from('SSH-2.0-OpenSSH_9.2\r\n')],
    ['Redis', Buffer.from('*1\r\n$4\r\nPING\r\n')],
    ['Kafka, which asks for metadata', int32s(30, 0x0003_0001, 7, 0x0004_6162)],
    ['a length that no start-up packet has', int32s(70_000, 0x0003_0000, 1)],
    ['AMQP', Buffer.from('AMQP\0\0\x09\x01')],
    ['something that begins like TLS', Buffer.from([22, 9, 9, 0, 1, 1])],
  ])('%s', (_, bytes) => expectFound(bytes, 'other'));

  test('TLS for something else, or for nothing in particular', async () => {
    expectFound(await clientHello(['h2', 'http/1.1']), 'other');
    expectFound(await clientHello(['postgresql2']), 'other');
    expectFound(await clientHello([]), 'other');
    expectFound(inRecords(await clientHello(['h2']), 50), 'other');
  });

  test('a name of the server is no protocol', async () => {
    expectFound(await clientHello(['h2'], 'postgresql'), 'other');
  });

  test('a first message of TLS whose lengths are wrong does no harm', async () => {
    const hello = await clientHello(['h2', 'postgresql']);
    for (let at = 5; at < hello.length; at++) {
      const broken = Buffer.from(hello);
      broken[at] = 255;
      expect(['postgres', 'other', 'undecided']).toContain(readFirstBytes(broken));
    }
  });
});
