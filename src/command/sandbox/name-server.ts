import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/** The address of the sandbox's name server: one of its loopback device that no command listens at by chance. */
export const NAME_SERVER = '127.66.0.53';

const DNS_PORT = 53;
const LENGTH_BYTES = 2;

/** Answers a question, in the form that `nameAnswer()` takes. */
type AnswerName = (question: NameQuestion) => Promise<string | null | undefined>;

/**
 * Answers questions for names at port 53, over UDP and TCP. It keeps no process alive. Without the right to listen there it does
 * nothing, and who asks gets an error at once.
 */
export async function serveNames(answer: AnswerName): Promise<void> {
  await Promise.all([serveDatagrams(answer), serveStreams(answer)]);
}

async function replyTo(message: Buffer, answer: AnswerName): Promise<Buffer | undefined> {
  const question = readNameQuestion(message);
  return question && nameAnswer(question, await answer(question));
}

function serveDatagrams(answer: AnswerName): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('message', async (message, { port, address }) => {
    const reply = await replyTo(message, answer);
    if (reply) socket.send(reply, port, address);
  });
  return new Promise((resolve) => {
    socket.on('error', () => resolve());
    socket.bind(DNS_PORT, NAME_SERVER, () => resolve());
    socket.unref();
  });
}

/** Each message has its length before it. */
function serveStreams(answer: AnswerName): Promise<void> {
  const server = createServer((socket) => {
    let held = Buffer.alloc(0);
    socket.unref();
    socket.on('error', () => socket.destroy());
    socket.on('data', async (chunk) => {
      held = Buffer.concat([held, chunk]);
      while (held.length >= LENGTH_BYTES && held.length >= LENGTH_BYTES + held.readUInt16BE(0)) {
        const end = LENGTH_BYTES + held.readUInt16BE(0);
        const message = held.subarray(LENGTH_BYTES, end);
        held = held.subarray(end);
        const reply = await replyTo(message, answer);
        if (!reply) continue;
        const length = Buffer.alloc(LENGTH_BYTES);
        length.writeUInt16BE(reply.length, 0);
        socket.write(Buffer.concat([length, reply]));
      }
    });
  });
  return new Promise((resolve) => {
    server.on('error', () => resolve());
    server.listen(DNS_PORT, NAME_SERVER, () => resolve());
    server.unref();
  });
}

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
/** The beginning of the question's name, as a compressed name. */
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
