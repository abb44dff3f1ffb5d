import { type Direction, FrameSplitter, type Piece } from '../../src/postgres/protocol/frames.ts';
import { encodeMessage, int32 } from '../../src/postgres/protocol/messages.ts';

/** Messages of the extended protocol, as a driver writes them. */
export function parseFrame(name: string, sql: string): Buffer {
  return encodeMessage('P'.charCodeAt(0), `${name}\0${sql}\0`, Buffer.alloc(2));
}

/** Bind without parameters, and Describe of the portal. */
export function bindFrames(portal: string, statement: string): Buffer[] {
  return [
    encodeMessage('B'.charCodeAt(0), `${portal}\0${statement}\0`, Buffer.alloc(6)),
    encodeMessage('D'.charCodeAt(0), `P${portal}\0`),
  ];
}

export function executeFrame(portal: string, rows: number): Buffer {
  return encodeMessage('E'.charCodeAt(0), `${portal}\0`, int32(rows));
}

export function syncFrame(): Buffer {
  return encodeMessage('S'.charCodeAt(0));
}

/** What the splitter makes of a stream that comes in these chunks. */
export function split(direction: Direction, chunks: readonly Buffer[]): Piece[] {
  const splitter = new FrameSplitter(direction);
  return chunks.flatMap((chunk) => [...splitter.push(chunk)]);
}

/** What must be the same however the stream is cut: neighbouring slices put together. */
export function meaningOf(pieces: readonly Piece[]): string[] {
  const told: string[] = [];
  let slice: Buffer[] = [];
  const end = () => {
    if (slice.length > 0) told.push(`slice ${Buffer.concat(slice).toString('base64')}`);
    slice = [];
  };
  for (const piece of pieces) {
    if (piece.kind === 'slice') {
      slice.push(piece.bytes);
      continue;
    }
    end();
    told.push(`${piece.kind} ${piece.type} ${piece.bytes.toString('base64')}`);
  }
  end();
  return told;
}
