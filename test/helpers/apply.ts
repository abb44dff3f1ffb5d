import type { ApplySection } from '../../src/model/report.ts';
import type { CliOptions } from './cli.ts';
import { type Rehearsal, rehearse } from './rehearse.ts';

export interface AppliedRun extends Rehearsal {
  readonly apply: ApplySection;
}

/** `safemigrate apply --yes -- <command>`, and its report. @throws when there was none. */
export async function apply(
  url: string,
  command: readonly string[],
  { args = [], ...options }: CliOptions & { args?: readonly string[] } = {},
): Promise<AppliedRun> {
  const result = await rehearse(url, command, { ...options, args: ['apply', '--yes', ...args] });
  if (result.report.apply === null) throw new Error(`nothing was applied:\n${result.stderr}`);
  return { ...result, apply: result.report.apply };
}
