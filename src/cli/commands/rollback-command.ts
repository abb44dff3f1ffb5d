import { formatDuration } from '../../format.ts';
import { onlineFacts } from '../../report/sections/swap-view.ts';
import { performRollback } from '../../swap/perform-rollback.ts';
import { makeRollbackPlan } from '../../swap/swap-plan.ts';
import { auditTo } from '../audit-file.ts';
import { confirm } from '../confirm.ts';
import { EXIT } from '../exit-codes.ts';
import { ROLLBACK_COMMAND_SETTINGS } from '../options/subcommand-settings.ts';
import { jsonText, visibleLines } from '../print.ts';
import { progress } from '../progress.ts';
import { gatherOptions } from '../read-options.ts';

const DISCARDED = 'Rows written since the swap are then in the newer database only (--discard-writes).';
const FOLLOWED = 'It has followed the newer database, and has all that was written since the swap.';
const REFUSED = 'If anything was written since the swap, it is refused, and the target is opened again.';

/** Swaps the kept original back. @returns 0 if it did, 4 if it was refused or undone. */
export async function rollbackCommand(
  flags: Record<string, unknown>,
  run: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const { yes = false, audit, format, ...options } = await gatherOptions(ROLLBACK_COMMAND_SETTINGS, flags);
  const display = progress(process.stderr);
  try {
    const { target, ...swap } = await performRollback(
      makeRollbackPlan({
        ...options,
        run,
        audit: auditTo(audit),
        emit: display.emit,
        signal,
        confirm: (name, kept, follows) =>
          confirm({
            lines: [
              `${kept} becomes ${name} again; the newer database is kept beside it.`,
              follows ? FOLLOWED : options.discardWrites ? DISCARDED : REFUSED,
            ],
            yes,
            signal,
          }),
      }),
    );
    display.finish();
    if (format === 'json') process.stdout.write(jsonText({ target: { database: target }, swap }));
    const { outcome, original, reasons, stallMs, online } = swap;
    const closed = stallMs === null ? '' : `, closed for ${formatDuration(stallMs)}`;
    if (outcome === 'swapped') {
      const facts = (online ? onlineFacts(online) : []).filter(([, words]) => words !== null);
      const lines = [
        `${target} is the original again${closed}. The newer database is kept as ${original}.`,
        ...facts.map(([name, words]) => `  ${name}: ${words}`),
      ];
      if (format !== 'json') process.stdout.write(visibleLines(`${lines.join('\n')}\n`));
      return EXIT.passed;
    }
    const state = outcome === 'undone' ? `${target} is open, and as it was${closed}` : 'Nothing was touched';
    const why = reasons.map((reason) => `  ${reason}\n`).join('');
    process.stderr.write(visibleLines(`safemigrate: Not rolled back. ${state}.\n${why}`));
    return EXIT.refused;
  } finally {
    display.finish();
  }
}
