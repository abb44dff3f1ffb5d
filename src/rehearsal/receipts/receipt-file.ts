import { readFileSync, writeFileSync } from 'node:fs';
import { commandWithoutSecrets } from '../../command/command-secrets.ts';
import type { Logins } from '../../command/rewrite.ts';
import type { Target } from '../../database/target.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { Report } from '../../model/report.ts';
import { redactReport } from '../../observe/redact-report.ts';
import type { TargetState } from '../../proof/target-state.ts';
import type { CommandPlan, RehearsalPlan } from '../plan.ts';
import { commandHash, type Receipt, type ReceiptIdentity, readReceipt, writeReceipt } from './receipt.ts';

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
    writeFileSync(file, writeReceipt(kept, identity, key ?? undefined), { mode: 0o600 });
    const unsigned = key === null ? ' It is not signed: anybody could make one (--receipt-key).' : '';
    emit({ type: 'notice', message: `the receipt is in ${file}.${unsigned}` });
  } catch (error) {
    emit({ type: 'notice', message: `the receipt could not be written to ${file}: ${messageOf(error)}` });
  }
}
