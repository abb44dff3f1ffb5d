import { SafemigrateError } from '../../errors.ts';
import { formatDuration, plural } from '../../format.ts';
import { resetClone } from '../../local-server/first-state.ts';
import { CLONE_PORT, type FolderEntry, readEntries } from '../../ownership/folder-records.ts';
import { parseRunId } from '../../ownership/run-id.ts';
import { makeRehearsalPlan } from '../../rehearsal/plan.ts';
import { makeResettableClones, type ResettableClone } from '../../rehearsal/resettable-clones.ts';
import { auditTo } from '../audit-file.ts';
import { EXIT } from '../exit-codes.ts';
import { KEPT_CLONE_SETTINGS } from '../options/subcommand-settings.ts';
import { visibleLines } from '../print.ts';
import { progress } from '../progress.ts';
import { gatherOptions } from '../read-options.ts';

const MOST = 100;

/** Makes clones that stay for a while, and prints their URLs on stdout, one a line. @returns 0 */
export async function cloneCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const {
    format,
    audit,
    count = 1,
    keepForMs,
    clone,
    target,
  } = await gatherOptions(KEPT_CLONE_SETTINGS, flags);
  if (count < 1 || count > MOST)
    throw new SafemigrateError('USAGE', `--count is ${count}, and can be 1 to ${MOST}.`);
  const started = performance.now();
  const display = progress(process.stderr);
  const plan = makeRehearsalPlan({
    target,
    clone: { ...clone, ttlMs: keepForMs ?? KEPT_CLONE_SETTINGS.keepForMs.default },
    audit: auditTo(audit),
    command: [],
    emit: display.emit,
    signal,
  });
  const clones = await makeResettableClones(plan, count).finally(() => display.finish());
  process.stdout.write(
    format === 'json' ? asJson(clones) : clones.map((each) => `${urlOf(each)}\n`).join(''),
  );
  const until = clones[0]?.entry.endsAt;
  process.stderr.write(
    `${plural(clones.length, 'clone')} in ${formatDuration(performance.now() - started)}, until ${until}. ` +
      'Reset one with `safemigrate reset` and its URL; end them with `safemigrate clean --kept`.\n',
  );
  return EXIT.passed;
}

function asJson(clones: readonly ResettableClone[]): string {
  const shown = clones.map((clone) => {
    const { run, folder, socketFolder, endsAt } = clone.entry;
    return { run, url: urlOf(clone), database: clone.database, folder, socketFolder, endsAt };
  });
  return `${JSON.stringify(shown, null, 2)}\n`;
}

/** Its host is a folder, which no URL can hold as such: libpq and the drivers read it from the query. */
function urlOf({ entry, user, database }: ResettableClone): string {
  const [role, name, folder] = [user, database, entry.socketFolder].map(encodeURIComponent);
  return `postgresql://${role}@localhost:${CLONE_PORT}/${name}?host=${folder}`;
}

/** Brings a clone back to its first state. @param subject its run, its folder or its URL. @returns 0 */
export async function resetCommand(subject: string | undefined, signal: AbortSignal): Promise<number> {
  const started = performance.now();
  const entry = await findClone(subject ?? '');
  await resetClone(entry, signal);
  process.stderr.write(
    visibleLines(
      `${entry.folder} is as it was made, after ${formatDuration(performance.now() - started)}.\n`,
    ),
  );
  return EXIT.passed;
}

async function findClone(subject: string): Promise<FolderEntry> {
  const run = parseRunId(subject) ?? parseRunId(/safemigrate_([0-9a-z]{13})/.exec(subject)?.[1] ?? '');
  const entries = await readEntries();
  const found = entries.find((each) => 'run' in each && each.run === run);
  if (found && 'run' in found) return found;
  throw new SafemigrateError('USAGE', `There is no clone "${subject}" on this machine.`, {
    hint: '`safemigrate list` shows those of this user. Name one by its run, its folder or its URL.',
  });
}
