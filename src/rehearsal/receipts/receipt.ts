import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { commandWithoutSecrets } from '../../command/command-secrets.ts';
import type { Logins } from '../../command/rewrite.ts';
import type { Target } from '../../database/target.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { formatDuration, listed } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { redactReport } from '../../observe/redact-report.ts';
import type { TargetState } from '../../proof/target-state.ts';
import type { CommandPlan, RehearsalPlan } from '../plan.ts';
import { overwriteFile } from '../write-whole.ts';
import type { receiptShape } from './receipt-shape.ts';
import { sealObjection, sealOf } from './seal.ts';

export type Receipt = z.infer<typeof receiptShape>;

/** Identity of a command and a server, beside what the report says. */
export interface ReceiptIdentity {
  readonly command: string;
  readonly systemIdentifier: string | null;
  /** Hashes of the objects of the schema before; absent if no receipt is wanted. */
  readonly objects?: Readonly<Record<string, string>> | undefined;
}

/** The text of a receipt. @param key signs it; without one its seal is a checksum that anybody can make. */
export function writeReceipt(from: Report, identity: ReceiptIdentity, key?: string): string {
  const content = {
    receipt: 1 as const,
    proved: {
      run: from.run.id,
      finishedAt: from.run.finishedAt,
      tool: from.run.tool.version,
      command: identity.command,
      serverVersion: from.target.serverVersion,
      database: from.target.database,
      systemIdentifier: identity.systemIdentifier,
      schema: from.schema && {
        before: from.schema.before,
        after: from.schema.after,
        objects: identity.objects,
      },
      verdict: from.verdict,
    },
    report: from,
  };
  return `${JSON.stringify({ ...content, seal: sealOf(content, key) }, null, 1)}\n`;
}

/**
 * Reads a receipt and proves its seal.
 * @throws SafemigrateError `REFUSED` for one that was altered, or whose seal is not of the kind that the key asks for.
 */
export async function readReceipt(text: string, key?: string): Promise<Receipt> {
  const { receiptShape: shape } = await import('./receipt-shape.ts');
  const { seal, ...content } = objectIn(text);
  const parsed = shape.safeParse({ ...content, seal });
  if (!parsed.success) throw refusal('it is not a receipt of this version of safemigrate, or was altered');
  const objection = sealObjection(content, parsed.data.seal, key);
  if (objection !== undefined) throw refusal(objection);
  return parsed.data;
}

/** Lists why a receipt does not stand for a rehearsal of this command on this database, as far as is known without its schema. */
export function receiptObjections(
  { proved: its }: Receipt,
  asked: ReceiptIdentity & { database: string; now: Date; maxAgeMs: number },
): string[] {
  const ageMs = asked.now.getTime() - Date.parse(its.finishedAt);
  const reasons: string[] = [];
  if (ageMs > asked.maxAgeMs)
    reasons.push(
      `the receipt is ${formatDuration(ageMs)} old, and may be ${formatDuration(asked.maxAgeMs)} (--limit age)`,
    );
  if (ageMs < -CLOCKS_DIFFER_MS)
    reasons.push(`the receipt is of ${its.finishedAt}, which is in the future by this machine's clock`);
  if (its.command !== asked.command) reasons.push('the receipt is for another command');
  if (its.database !== asked.database)
    reasons.push(`the receipt is for the database ${its.database}, and this is ${asked.database}`);
  else if (its.systemIdentifier !== asked.systemIdentifier)
    reasons.push(`the receipt is for a database ${its.database} on another server (system identifier)`);
  return reasons;
}

/** Clocks of two machines may differ by this. */
const CLOCKS_DIFFER_MS = 60_000;

const NAMED_OBJECTS = 5;

/**
 * Compares the receipt's schema before with the target's now.
 * @param objects hashes of the target's objects, which are read if the schemas differ.
 */
export async function schemaReason(
  { proved: { schema } }: Receipt,
  fingerprint: string,
  objects: () => Promise<Readonly<Record<string, string>>>,
): Promise<string | undefined> {
  if (schema === null) return 'the receipt holds no schema: the rehearsal could not read it';
  if (schema.before === fingerprint) return undefined;
  const differing = schema.objects === undefined ? [] : differences(schema.objects, await objects());
  const what =
    differing.length === 0
      ? `it was ${schema.before.slice(0, 12)}, and is ${fingerprint.slice(0, 12)}`
      : listed(differing, { atMost: NAMED_OBJECTS });
  return `the target's schema is not the one that was rehearsed: ${what}`;
}

/** `+ table public.extra`, `- …` and `~ …`, by kind and name. */
function differences(
  then: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): string[] {
  const names = [...new Set([...Object.keys(then), ...Object.keys(now)])].sort();
  return names
    .filter((name) => then[name] !== now[name])
    .map((name) => `${then[name] === undefined ? '+' : now[name] === undefined ? '-' : '~'} ${name}`);
}

/** Hashes a command's words as reports show them: a password that was changed does not make another command. */
export function commandHash(shownWords: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(shownWords)).digest('hex');
}

function objectIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return { ...value };
  } catch {}
  throw refusal('it is no JSON object');
}

function refusal(why: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `The receipt is refused: ${why}.`, {
    hint: 'The target was not touched. Rehearse again with --receipt, or apply without one.',
  });
}

/** A rehearsal that an apply may rely on. */
export type Rehearsal = { readonly report: Report } & (
  | { readonly receipt: Receipt }
  /** The target as it was before the rehearsal. */
  | { readonly before: TargetState }
);

/** The rehearsal that a receipt stands for. @throws SafemigrateError `CONFIGURATION`, `REFUSED` */
export async function readRehearsal(file: string, key: string | null): Promise<Rehearsal> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new SafemigrateError('CONFIGURATION', `--receipt: ${file} cannot be read: ${messageOf(cause)}.`, {
      cause,
    });
  }
  const receipt = await readReceipt(text, key ?? undefined);
  return { report: receipt.report, receipt };
}

/** Identifies this command and this server, for receipts. */
export function identityOf(
  { server }: Pick<Target, 'server'>,
  { logins }: Logins,
  { argv }: CommandPlan,
): ReceiptIdentity {
  return {
    command: commandHash(commandWithoutSecrets(argv, logins)),
    systemIdentifier: server.systemIdentifier,
  };
}

/**
 * Writes the receipt, if one is wanted. The rehearsal is over, so that a file that cannot be written is a notice. The receipt
 * keeps the schema as it was found, to be compared with the target's, and the target's name.
 */
export async function keepReceipt(
  report: Report,
  identity: ReceiptIdentity,
  { receipt: { file, key }, redact, emit }: Pick<RehearsalPlan, 'receipt' | 'redact' | 'emit'>,
): Promise<void> {
  if (file === null) return;
  try {
    const kept = redact
      ? { ...(await redactReport(report)), schema: report.schema, target: report.target }
      : report;
    overwriteFile(file, writeReceipt(kept, identity, key ?? undefined), 0o600);
    const unsigned = key === null ? ' It is not signed: anybody could make one (--receipt-key).' : '';
    emit({ type: 'notice', message: `the receipt is in ${file}.${unsigned}` });
  } catch (error) {
    emit({ type: 'notice', message: `the receipt could not be written to ${file}: ${messageOf(error)}` });
  }
}
