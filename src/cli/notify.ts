import { messageOf } from '../errors.ts';
import type { Report } from '../model/report.ts';
import { visibleLines } from './print.ts';
import { forReader } from './publish.ts';

/** Receivers such as chat services cut longer ones. */
const MAX_BYTES = 2048;
const TIMEOUT_MS = 5000;
const MOST_REASONS = 5;
const MAX_REASON_LENGTH = 200;

/** What is sent: `text` is for people, the rest for programs. */
export interface Notification {
  readonly text: string;
  readonly tool: string;
  readonly run: string;
  readonly mode: Report['run']['mode'];
  readonly database: string;
  readonly pass: boolean;
  /** The outcome of an apply or a swap; null for a rehearsal. */
  readonly outcome: string | null;
  readonly durationMs: number;
  readonly hazards: { readonly errors: number; readonly warnings: number; readonly notices: number };
  readonly reasons: readonly string[];
}

/** Sends the verdict to a web address. A failure is printed, and changes nothing: the run has ended. */
export async function notify(report: Report, url: string): Promise<void> {
  try {
    const body = JSON.stringify(notificationOf(await forReader(report, 'markdown', true)));
    const { address, headers } = receiverOf(url);
    const response = await fetch(address, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`it answered ${response.status}`);
  } catch (error) {
    const cause = causeOf(error).replaceAll(url, 'the address of --notify');
    process.stderr.write(visibleLines(`safemigrate: The notification was not sent: ${cause}.\n`));
  }
}

/** fetch() refuses credentials in an address. @throws Error without the address, whose path and query may be secrets as well. */
function receiverOf(url: string): { address: URL; headers: Record<string, string> } {
  if (!URL.canParse(url)) throw new Error('--notify names no address of the web');
  const address = new URL(url);
  const [user, password] = [address.username, address.password].map(decodeURIComponent);
  address.username = '';
  address.password = '';
  if (!user && !password) return { address, headers: {} };
  const credentials = Buffer.from(`${user}:${password}`).toString('base64');
  return { address, headers: { authorization: `Basic ${credentials}` } };
}

/** @param report redacted: the receiver is another system. */
export function notificationOf({ run, target, verdict, hazards, apply, swap }: Report): Notification {
  const counted = (severity: 'error' | 'warning' | 'notice') =>
    hazards.filter((hazard) => hazard.severity === severity && !hazard.allowed).length;
  const outcome = apply?.outcome ?? swap?.outcome ?? null;
  const words = outcome ?? (verdict.pass ? 'passed' : 'did not pass');
  const notification: Notification = {
    text: `safemigrate ${run.mode} of ${target.database}: ${words}`,
    tool: `safemigrate ${run.tool.version}`,
    run: run.id,
    mode: run.mode,
    database: target.database,
    pass: verdict.pass,
    outcome,
    durationMs: Date.parse(run.finishedAt) - Date.parse(run.startedAt),
    hazards: { errors: counted('error'), warnings: counted('warning'), notices: counted('notice') },
    reasons: verdict.reasons
      .slice(0, MOST_REASONS)
      .map((reason) =>
        reason.length > MAX_REASON_LENGTH ? `${reason.slice(0, MAX_REASON_LENGTH)}…` : reason,
      ),
  };
  return Buffer.byteLength(JSON.stringify(notification)) <= MAX_BYTES
    ? notification
    : { ...notification, reasons: [] };
}

/** fetch() gives the reason as the cause of its error. */
function causeOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : messageOf(error);
}
