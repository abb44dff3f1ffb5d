import { EXIT } from '../exit-codes.ts';
import { readReport } from '../history.ts';
import { SHOW_SETTINGS } from '../options/subcommand-settings.ts';
import { checkWritable, publishStored } from '../publish.ts';
import { gatherOptions } from '../read-options.ts';

/** Prints the stored report of a run, or writes it in other formats. */
export async function showCommand(flags: Record<string, unknown>, run: string | undefined): Promise<number> {
  const options = await gatherOptions(SHOW_SETTINGS, flags);
  for (const file of options.report ?? []) checkWritable(file);
  await publishStored(await readReport(run), options);
  return EXIT.passed;
}
