/** A question to a name server. */
export interface NameQuestion {
  readonly name: string;
  readonly type: number;
  readonly id: number;
  /** The question as it came: an answer repeats it, with its upper and lower case. */
  readonly bytes: Buffer;
  readonly recursionDesired: boolean;
}

export const A_RECORD = 1;

const HEADER = 12;
const RESPONSE_TO_QUERY = 0x8080;
const RECURSION_DESIRED = 0x0100;
const NO_SUCH_NAME = 3;
const INTERNET = 1;
/** Where the question's name begins, as a compressed name. */
const NAME_OF_QUESTION = 0xc00c;
const LONGEST_LABEL = 63;

/** @returns undefined if it is no query with one question. */
export function readNameQuestion(message: Buffer): NameQuestion | undefined {
  if (message.length < HEADER + 5) return undefined;
  const flags = message.readUInt16BE(2);
  const isQuery = (flags & 0xf800) === 0 && message.readUInt16BE(4) === 1;
  if (!isQuery) return undefined;
  const labels: string[] = [];
  let at = HEADER;
  for (;;) {
    const length = message[at];
    if (length === undefined || length > LONGEST_LABEL) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString('latin1', at, at + length));
    at += length;
  }
  if (message.length < at + 4) return undefined;
  return {
    name: labels.join('.').toLowerCase(),
    type: message.readUInt16BE(at),
    id: message.readUInt16BE(0),
    bytes: message.subarray(HEADER, at + 4),
    recursionDesired: (flags & RECURSION_DESIRED) !== 0,
  };
}

/** @param answer an IPv4 address; null: the name exists and has no such record; undefined: there is no such name. */
export function nameAnswer(question: NameQuestion, answer: string | null | undefined): Buffer {
  const address = question.type === A_RECORD ? answer : null;
  const header = Buffer.alloc(HEADER);
  header.writeUInt16BE(question.id, 0);
  header.writeUInt16BE(
    RESPONSE_TO_QUERY |
      (question.recursionDesired ? RECURSION_DESIRED : 0) |
      (answer === undefined ? NO_SUCH_NAME : 0),
    2,
  );
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(address ? 1 : 0, 6);
  return Buffer.concat([header, question.bytes, ...(address ? [addressRecord(address)] : [])]);
}

/** Not to be kept: the time to live is 0. */
function addressRecord(address: string): Buffer {
  const record = Buffer.alloc(16);
  record.writeUInt16BE(NAME_OF_QUESTION, 0);
  record.writeUInt16BE(A_RECORD, 2);
  record.writeUInt16BE(INTERNET, 4);
  record.writeUInt16BE(4, 10);
  record.set(address.split('.').map(Number), 12);
  return record;
}
