import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { type NameQuestion, nameAnswer, readNameQuestion } from './name-messages.ts';

/** The address of the sandbox's name server: one of its loopback device that no command listens at by chance. */
export const NAME_SERVER = '127.66.0.53';

const DNS_PORT = 53;
const LENGTH_BYTES = 2;

/** Answers a question, in the form that `nameAnswer()` takes. */
export type AnswerName = (question: NameQuestion) => Promise<string | null | undefined>;

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
