import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf, messageOf, SafemigrateError } from '../../errors.ts';
import { inPhase } from '../../events.ts';
import { readCutOver, writeCutOver } from '../../ownership/cut-over-order.ts';
import { refreshViews } from './catch-up.ts';
import type { OnlineRun } from './cut-over.ts';
import { drain } from './follower.ts';
import { requireUnchanged } from './fork.ts';

/**
 * Writes the file that postpones the cut-over, unless it exists: the run would cut over at once if its name had a mistake.
 * @returns a function that removes the file, if this run wrote it.
 * @throws SafemigrateError `CONFIGURATION` if it cannot be written.
 */
export async function makePostponeFile(file: string): Promise<() => Promise<void>> {
  try {
    await writeFile(file, 'The online swap cuts over once this file is removed.\n', { flag: 'wx' });
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return async () => {};
    throw new SafemigrateError(
      'CONFIGURATION',
      `--postpone-file: ${file} cannot be written: ${messageOf(cause)}.`,
      { cause, hint: 'Name a file in a folder that exists and can be written. Nothing was touched.' },
    );
  }
  return () => rm(file, { force: true });
}

const POLL_MS = 1_000;
/** Time between two checks of the target for changes that are not replicated. */
const CHECK_EVERY_MS = 10_000;

/**
 * Waits with the cut-over until the file is removed, or `safemigrate cut-over` was called. The clone follows in the meantime.
 * @returns the time that it took in milliseconds.
 * @throws SafemigrateError `REFUSED` if the clone cannot follow any more.
 */
export async function waitForOrder(
  run: Pick<OnlineRun, 'subject' | 'fork' | 'plan' | 'follower'>,
  file: string,
): Promise<number> {
  const { subject, fork, plan, follower } = run;
  const { control, emit, signal } = subject;
  const startedAt = performance.now();
  await writeCutOver(control, fork.clone.oid, 'postponed');
  const message = `the clone follows ${subject.target.database.name}; to cut over, remove ${file}, or call \`safemigrate cut-over ${subject.run}\``;
  emit({ type: 'notice', message });
  const onBehind = (bytes: number) =>
    emit({
      type: 'progress',
      phase: 'postponed',
      done: Math.max(0, Math.round(bytes)),
      unit: 'bytes behind',
    });
  await inPhase(emit, 'postponed', async () => {
    let checkedAt = startedAt;
    while (existsSync(file) && (await readCutOver(control, fork.clone.oid)) !== 'ordered') {
      await drain(control, follower, { timeoutMs: POLL_MS, signal, onBehind });
      if (performance.now() - checkedAt > CHECK_EVERY_MS) {
        await requireUnchanged(fork, plan);
        checkedAt = performance.now();
      }
      await delay(POLL_MS, undefined, { signal });
    }
  });
  await refreshViews(run);
  return performance.now() - startedAt;
}
