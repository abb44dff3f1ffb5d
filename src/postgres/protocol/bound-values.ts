import { literal } from '../sql/quote.ts';
import { payloadOf, readCString } from './messages.ts';

/** Longer messages are not read: their values are no part of a script that people read. */
const LONGEST_BYTES = 16 * 1024;

/** Types that clients declare by OID, by the names to cast to. The others are left to the server, as an untyped parameter is. */
const TYPE_NAMES: ReadonlyMap<number, string> = new Map([
  [16, 'boolean'],
  [17, 'bytea'],
  [20, 'bigint'],
  [21, 'smallint'],
  [23, 'integer'],
  [25, 'text'],
  [114, 'json'],
  [700, 'real'],
  [701, 'double precision'],
  [1043, 'varchar'],
  [1082, 'date'],
  [1114, 'timestamp'],
  [1184, 'timestamptz'],
  [1700, 'numeric'],
  [2950, 'uuid'],
  [3802, 'jsonb'],
]);

/** Reads a value in binary format, of the types that drivers send so. */
const BINARY: Readonly<Record<number, (bytes: Buffer) => string>> = {
  16: (bytes) => String(bytes[0] === 1),
  17: (bytes) => `\\x${bytes.toString('hex')}`,
  20: (bytes) => String(bytes.readBigInt64BE()),
  21: (bytes) => String(bytes.readInt16BE()),
  23: (bytes) => String(bytes.readInt32BE()),
  25: (bytes) => bytes.toString(),
  701: (bytes) => String(bytes.readDoubleBE()),
  1043: (bytes) => bytes.toString(),
  2950: (bytes) => bytes.toString('hex'),
};

/** Returns the OIDs of the types that a Parse declares for its parameters; 0 stands for a type that the server finds. */
export function declaredTypes(parse: Buffer): number[] {
  const payload = payloadOf(parse);
  const at = readCString(payload, readCString(payload, 0).next).next;
  if (payload.length < at + 2) return [];
  return Array.from({ length: payload.readUInt16BE(at) }, (_, index) =>
    payload.readUInt32BE(at + 2 + 4 * index),
  );
}

/** Returns the values of a Bind as SQL; null if one of them cannot be written so: it is too long, or its binary format is not known. */
export function boundValues(bind: Buffer, types: readonly number[]): string[] | null {
  if (bind.length > LONGEST_BYTES) return null;
  const payload = payloadOf(bind);
  let at = readCString(payload, readCString(payload, 0).next).next;
  const int16 = () => {
    at += 2;
    return payload.readUInt16BE(at - 2);
  };
  const formats = Array.from({ length: int16() }, int16);
  const values: string[] = [];
  for (let index = 0, count = int16(); index < count; index++) {
    const length = payload.readInt32BE(at);
    at += 4;
    const bytes = length < 0 ? null : payload.subarray(at, at + length);
    at += Math.max(length, 0);
    const format = (formats.length === 1 ? formats[0] : formats[index]) ?? 0;
    const value = writtenValue(bytes, format, types[index] ?? 0);
    if (value === null) return null;
    values.push(value);
  }
  return values;
}

function writtenValue(bytes: Buffer | null, format: number, type: number): string | null {
  const text = bytes === null ? 'NULL' : textOfValue(bytes, format, type);
  if (text === null) return null;
  const name = TYPE_NAMES.get(type);
  return name === undefined ? text : `${text}::${name}`;
}

function textOfValue(bytes: Buffer, format: number, type: number): string | null {
  const text = format === 0 ? bytes.toString() : BINARY[type]?.(bytes);
  return text === undefined ? null : literal(text).trim();
}
