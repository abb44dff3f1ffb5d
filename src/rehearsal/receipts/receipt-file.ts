import { readFileSync, writeFileSync } from 'node:fs';
import { commandWithoutSecrets } from '../../command/command-secrets.ts';
import type { Logins } from '../../command/rewrite.ts';
import type { Target } from '../../database/target.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { Report } from '../../model/report.ts';
import { redactReport } from '../../observe/redact-report.ts';
import type { TargetState } from '../../observe/target-state.ts';
import type { RehearseOptions } from '../run-options.ts';
import { ignore } from '../slices.ts';
import { commandHash, type Receipt, type ReceiptIdentity, readReceipt, writeReceipt } from './receipt.ts';

/** A rehearsal that an apply may rely on. */
export type Rehearsal = { readonly report: Report } & (
  | { readonly receipt: Receipt }
  /** The target as it was before the rehearsal. */
  | { readonly before: TargetState }
);

/** The rehearsal that a receipt stands for. @throws SafemigrateError `CONFIGURATION`, `REFUSED` */
export async function readRehearsal(file: string, { receiptKey }: RehearseOptions): Promise<Rehearsal> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new SafemigrateError('CONFIGURATION', `--receipt: ${file} cannot be read: ${messageOf(cause)}.`, {
      cause,
    });
  }
  const receipt = await readReceipt(text, receiptKey);
  return { report: receipt.report, receipt };
}

/** What tells this command and this server from others, for receipts. */
export function identityOf(
  { server }: Pick<Target, 'server'>,
  { logins }: Logins,
  { command }: RehearseOptions,
): ReceiptIdentity {
  return {
    command: commandHash(commandWithoutSecrets(command, logins)),
    systemIdentifier: server.systemIdentifier,
  };
}

/**
 * Where one was asked for. The rehearsal has been made: a file that cannot be written is a notice. The schema
 * stays in it as it was found, to be compared with the target's, and so does the name of the target.
 */
export async function keepReceipt(
  report: Report,
  identity: ReceiptIdentity,
  options: RehearseOptions,
): Promise<void> {
  const { receipt, receiptKey, redact = false, emit = ignore } = options;
  if (receipt === undefined) return;
  try {
    const kept = redact
      ? { ...(await redactReport(report)), schema: report.schema, target: report.target }
      : report;
    writeFileSync(receipt, writeReceipt(kept, identity, receiptKey), { mode: 0o600 });
    const unsigned =
      receiptKey === undefined ? ' It is not signed: anybody could make one (--receipt-key).' : '';
    emit({ type: 'notice', message: `the receipt is in ${receipt}.${unsigned}` });
  } catch (error) {
    emit({ type: 'notice', message: `the receipt could not be written to ${receipt}: ${messageOf(error)}` });
  }
}
