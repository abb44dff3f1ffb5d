import type { Report } from '../model/report.ts';
import { readRehearsal } from '../rehearsal/receipts/receipt-file.ts';
import { redactIfAsked, rehearseAndRemember } from '../rehearsal/rehearse.ts';
import type { ApplyOptions } from './apply-options.ts';
import { applyRehearsed } from './apply-rehearsed.ts';
import { refuseEarly } from './refuse-early.ts';

/** Beyond these a target that changes all the time is not rehearsed on again. */
const REHEARSALS = 3;

/**
 * Rehearses, and runs the command on the target itself where the rehearsal passed and still holds. A target that changed
 * meanwhile is rehearsed on again. A receipt stands for the rehearsal.
 * @throws SafemigrateError what rehearse() throws; `REFUSED`; `TARGET_CHANGED` where it is not known what became of the command.
 */
export async function apply(options: ApplyOptions): Promise<Report> {
  const startedAt = new Date();
  await refuseEarly(options);
  if (options.receipt !== undefined) {
    const rehearsal = await readRehearsal(options.receipt, options);
    return redactIfAsked((await applyRehearsed(rehearsal, options, startedAt)).report, options);
  }
  for (let rehearsals = 1; ; rehearsals++) {
    const rehearsal = await rehearseAndRemember(options);
    const { report, outdated } = await applyRehearsed(rehearsal, options, startedAt);
    if (outdated.length === 0 || rehearsals === REHEARSALS) return redactIfAsked(report, options);
    const message = `the target changed while it was rehearsed on (${outdated.join(', ')}): rehearsing again`;
    options.emit?.({ type: 'notice', message });
  }
}
