import { describe, expect, test } from 'vitest';
import {
  FROM_CLIENT,
  FROM_SERVER,
  FrameSplitter,
  LARGEST_TEXT_BYTES,
  ProtocolError,
  StartupSplitter,
} from '../../../src/postgres/protocol/frames.ts';
import { meaningOf, split } from '../../helpers/frames.ts';

function frame(type: string, payload: Buffer | string = ''): Buffer {
  const body = Buffer.from(payload);
  const header = Buffer.alloc(5);
  header.write(type, 0, 'latin1');
  header.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
}

const SERVER_STREAM = Buffer.concat([
  frame('S', 'TimeZone\0UTC\0'),
  frame('Z', 'I'),
  frame('T', 'row'),
  frame('D', 'x'.repeat(40)),
  frame('D'),
  frame('D', 'é'),
  frame('C', 'SELECT 3\0'),
  frame('N', 'SNOTICE\0\0'),
  frame('d', 'copied'),
  frame('c'),
  frame('E', 'SERROR\0C42601\0\0'),
  frame('Z', 'E'),
]);

describe('the frame splitter', () => {
  const whole = split(FROM_SERVER, [SERVER_STREAM]);

  test('delivers the frames of the other types whole and lets rows through as one slice', () => {
    expect(
      whole.map((piece) => (piece.kind === 'slice' ? '…' : String.fromCharCode(piece.type))).join(''),
    ).toBe('SZT…CN…cEZ');
  });

  test('gives the same pieces when the stream is cut at any one place', () => {
    for (let at = 0; at <= SERVER_STREAM.length; at++) {
      const pieces = split(FROM_SERVER, [SERVER_STREAM.subarray(0, at), SERVER_STREAM.subarray(at)]);
      expect(meaningOf(pieces), `cut at ${at}`).toEqual(meaningOf(whole));
    }
  });

  test('gives the same pieces when the stream comes byte by byte', () => {
    const pieces = split(
      FROM_SERVER,
      [...SERVER_STREAM].map((byte) => Buffer.from([byte])),
    );
    expect(meaningOf(pieces)).toEqual(meaningOf(whole));
  });

  test('knows when it stands between two frames', () => {
    const splitter = new FrameSplitter(FROM_SERVER);
    const row = frame('D', 'abc');
    expect(splitter.atBoundary).toBe(true);
    [...splitter.push(row.subarray(0, 6))];
    expect(splitter.atBoundary).toBe(false);
    [...splitter.push(row.subarray(6))];
    expect(splitter.atBoundary).toBe(true);
  });

  test('delivers only the head of a frame beyond its bound, and the rest as slices', () => {
    const bind = frame('B', `portal\0statement\0${'v'.repeat(100_000)}`);
    const pieces = split(FROM_CLIENT, [bind, frame('S')]);
    expect(pieces.map((piece) => piece.kind)).toEqual(['head', 'slice', 'frame']);
    expect(pieces[0]?.bytes.subarray(5, 12).toString()).toBe('portal\0');
    expect(Buffer.concat(pieces.map((piece) => piece.bytes))).toEqual(Buffer.concat([bind, frame('S')]));
  });

  test('holds a text up to the bound whole, over however many chunks it comes', () => {
    const query = frame('Q', 'x'.repeat(LARGEST_TEXT_BYTES - 5));
    const chunks = Array.from({ length: Math.ceil(query.length / 65_536) }, (_, index) =>
      query.subarray(index * 65_536, (index + 1) * 65_536),
    );
    const pieces = split(FROM_CLIENT, chunks);
    expect(pieces).toHaveLength(1);
    expect(pieces[0]?.bytes.equals(query)).toBe(true);
  });

  test.each([
    ['a length below its own size', frame('Q', '').fill(0, 1, 5)],
    ['a length beyond what a server takes', Buffer.from([0x51, 0x7f, 0xff, 0xff, 0xff])],
    ['a negative length', Buffer.from([0x64, 0xff, 0xff, 0xff, 0xff])],
    ['a type that does not exist', frame('?', 'text')],
    ['a type that only the other side sends', frame('Z', 'I')],
  ])('refuses %s', (_name, bytes) => {
    expect(() => split(FROM_CLIENT, [bytes])).toThrow(ProtocolError);
    expect(() =>
      split(
        FROM_CLIENT,
        [...bytes].map((byte) => Buffer.from([byte])),
      ),
    ).toThrow(ProtocolError);
  });

  test('never loses, adds or moves a byte, whatever the frames and however they are cut', () => {
    const random = generator(20260802);
    const types = 'Dd123ACEGHIKNRSTVWZnstcv';
    for (let round = 0; round < 300; round++) {
      const frames = Array.from({ length: 1 + random(12) }, () =>
        frame(
          types[random(types.length)] ?? 'D',
          Buffer.alloc(random(10) === 0 ? random(90_000) : random(40), random(256)),
        ),
      );
      const stream = Buffer.concat(frames);
      const chunks: Buffer[] = [];
      for (let at = 0; at < stream.length; ) {
        const length = 1 + random(random(3) === 0 ? 70_000 : 9);
        chunks.push(stream.subarray(at, at + length));
        at += length;
      }
      const pieces = split(FROM_SERVER, chunks);
      expect(Buffer.concat(pieces.map((piece) => piece.bytes)).equals(stream)).toBe(true);
      const told = pieces.flatMap((piece) => (piece.kind === 'slice' ? [] : [piece.type]));
      expect(told).toEqual(frames.map((bytes) => bytes[0]).filter((type) => type !== 0x44 && type !== 0x64));
    }
  });

  test('meets random bytes with a protocol error or with pieces that are those bytes', () => {
    const random = generator(7);
    for (let round = 0; round < 2000; round++) {
      const bytes = Buffer.from(Array.from({ length: 1 + random(60) }, () => random(256)));
      try {
        const pieces = Buffer.concat(split(FROM_CLIENT, [bytes]).map((piece) => piece.bytes));
        expect(bytes.subarray(0, pieces.length).equals(pieces)).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError);
      }
    }
  });
});

describe('the start-up splitter', () => {
  const packet = Buffer.concat([Buffer.from([0, 0, 0, 16, 0, 3, 0, 0]), Buffer.from('user\0x\0\0')]);
  packet.writeUInt32BE(packet.length, 0);

  test('collects one packet, byte by byte, and gives back what came behind it', () => {
    for (let at = 0; at < packet.length; at++) {
      const splitter = new StartupSplitter();
      expect(splitter.push(packet.subarray(0, at))).toBeUndefined();
      const found = splitter.push(Buffer.concat([packet.subarray(at), Buffer.from('rest')]));
      expect(found?.packet).toEqual(packet.subarray(4));
      expect(found?.rest.toString()).toBe('rest');
    }
  });

  test.each([
    ['a direct TLS handshake', Buffer.from([0x16, 3, 1, 0, 1])],
    ['an absurd length', Buffer.from([0x7f, 0, 0, 0])],
    ['a length too short for a version', Buffer.from([0, 0, 0, 4])],
  ])('refuses %s', (_name, bytes) => {
    expect(() => new StartupSplitter().push(bytes)).toThrow(ProtocolError);
  });
});

/** Whole numbers below a limit, the same in every run. */
function generator(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}
