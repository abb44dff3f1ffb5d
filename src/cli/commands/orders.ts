import { type ManualOrder, order } from '../../apply/guardrails/control.ts';
import { SafemigrateError } from '../../errors.ts';
import { parseRunId } from '../../ownership/run-id.ts';
import { EXIT } from '../exit-codes.ts';
import { visibleLines } from '../print.ts';

/** Asks an apply that runs on this machine to pause, resume or end. @throws SafemigrateError `USAGE`, `CONFIGURATION` */
export async function orderCommand(what: ManualOrder, run: string | undefined): Promise<number> {
  const known = run === undefined ? undefined : parseRunId(run);
  if (known === undefined)
    throw new SafemigrateError('USAGE', `\`safemigrate ${what}\` needs the name of a run.`, {
      hint: 'An apply says its name when its command starts.',
    });
  process.stdout.write(visibleLines(`${await order(known, what)}\n`));
  return EXIT.passed;
}
