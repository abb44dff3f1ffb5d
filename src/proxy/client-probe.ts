import type { Socket } from 'node:net';
import { parameterStatusMessage } from '../postgres/protocol/messages.ts';
import type { Upstream } from './upstream.ts';

const PROBE_INTERVAL_MS = 50;
/** A parameter that every server reports: its value, sent again, is a message without a meaning. */
const REPORTED = 'server_encoding';

/**
 * Finds out whether a client that sends no more still listens, as long as `mayAnswer` says that an answer may come. That shows
 * only by writing, and a second time: an orphaned socket answers the first with a reset, which the next write meets.
 */
export function probeClient(
  client: Socket,
  upstream: Pick<Upstream, 'reader' | 'parameters'>,
  mayAnswer: () => 'yes' | 'later' | 'no',
): void {
  const answer = mayAnswer();
  if (answer === 'no' || !client.writable) return;
  if (answer === 'yes' && upstream.reader.atBoundary)
    client.write(parameterStatusMessage(REPORTED, upstream.parameters.get(REPORTED) ?? ''));
  setTimeout(() => probeClient(client, upstream, mayAnswer), PROBE_INTERVAL_MS).unref();
}
