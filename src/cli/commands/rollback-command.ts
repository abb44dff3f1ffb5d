import type { SwapSection } from '../../model/report.ts';
import { closedWords, onlineFacts } from '../../report/sections/swap-view.ts';
import { performRollback } from '../../swap/perform-rollback.ts';
import { makeRollbackPlan } from '../../swap/swap-plan.ts';
import type { RollbackQuestion } from '../../swap/swap-settings.ts';
import { exchangeOf, writesWords } from '../../swap/writes-since.ts';
import { auditTo } from '../audit-file.ts';
import { confirm } from '../confirm.ts';
import { EXIT } from '../exit-codes.ts';
import { ROLLBACK_COMMAND_SETTINGS } from '../options/subcommand-settings.ts';
import { jsonText, visibleLines } from '../print.ts';
import { progress } from '../progress.ts';
import { gatherOptions } from '../read-options.ts';

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
        confirm: (question) => confirm({ lines: questionLines(question), yes, signal }),
      }),
    );
    display.finish();
    if (format === 'json') process.stdout.write(jsonText({ target: { database: target }, swap }));
    const { outcome, reasons } = swap;
    const closed = closedWords(swap);
    if (outcome === 'swapped') {
      const facts = onlineFacts(swap).filter(([, words]) => words !== null);
      const lines = [
        `${target} is ${swap.rolledBack === undefined ? 'the migrated database' : 'the original'} again${closed}.`,
        `  ${keptWords(swap)}`,
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

/** Says what a rollback is about to do, and how many rows it gives up. */
function questionLines({ target, database, role, follows, writes }: RollbackQuestion): string[] {
  const since = exchangeOf(role);
  const words = writesWords(writes, since);
  const becomes = role === 'original' ? 'as a rolled-back database' : 'as an original';
  return [
    `${database} becomes ${target} again; the database in use now is put aside ${becomes}.`,
    ...(follows
      ? [
          `It has followed the database in use, and has all${words === null ? '' : ' other'} rows written since ${since}.`,
        ]
      : []),
    ...(words === null
      ? [
          `No row is given up so far. If one is by the time that ${target} is closed, it is refused, and opened again.`,
        ]
      : [`So far ${words}. Only the database that is put aside has them then (--discard-writes).`]),
  ];
}

/** `The rolled-back database, which the migration had made, is kept as app_rolledback_1: only clean --rolled-back drops it.` */
function keptWords({ original, rolledBack, givenUp }: SwapSection): string {
  const kept =
    rolledBack === undefined
      ? `The original is kept as ${original}.`
      : `The migrated database is put aside as ${rolledBack}: only \`safemigrate clean --rolled-back\` drops it.`;
  const words = givenUp && writesWords(givenUp, 'the swap');
  return words ? `${kept} Only it has these rows: ${words}.` : kept;
}
