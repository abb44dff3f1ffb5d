import { writeFileSync } from 'node:fs';
import { locateTarget } from '../../database/locate.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { formatBytes, formatDuration, plural } from '../../format.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import { sealedProfile } from '../../rehearsal/profile/profile-file.ts';
import { takeProfile, type UnsealedProfile } from '../../rehearsal/profile/take-profile.ts';
import { auditTo } from '../audit-file.ts';
import { EXIT } from '../exit-codes.ts';
import { PROFILE_SETTINGS } from '../options/subcommand-settings.ts';
import { visibleLines } from '../print.ts';
import { checkWritable } from '../publish.ts';
import { gatherOptions } from '../read-options.ts';

const DEFAULT_WINDOW_MS = PROFILE_SETTINGS.windowMs.default;

/** Writes a profile of a database, and says what is in it and what could not be read. @returns 0 */
export async function profileCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const { out, windowMs, receipt, audit, target = {} } = await gatherOptions(PROFILE_SETTINGS, flags);
  if (out !== undefined) checkWritable(out, 'profile', '--out');
  const located = locateTarget(target, readEnvironment(process.env, process.cwd()));
  const profile = await takeProfile(located, windowMs ?? DEFAULT_WINDOW_MS, auditTo(audit), signal);
  const text = sealedProfile(profile, receipt?.key);
  if (out === undefined) process.stdout.write(text);
  else write(out, text);
  process.stderr.write(visibleLines(summaryOf(profile, out, receipt?.key !== undefined)));
  return EXIT.passed;
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text, { mode: 0o600 });
  } catch (cause) {
    throw new SafemigrateError(
      'CONFIGURATION',
      `The profile cannot be written to ${file}: ${messageOf(cause)}.`,
      {
        hint: 'The database was only read. Name another file with --out.',
        cause,
      },
    );
  }
}

function summaryOf(
  { database, relations, traffic, statements, unread }: UnsealedProfile,
  out: string | undefined,
  signed: boolean,
): string {
  const rates =
    traffic === null
      ? ''
      : `, traffic over ${formatDuration(traffic.sampledMs)}${traffic.averagedMs === null ? '' : ` and ${formatDuration(traffic.averagedMs)}`}`;
  const texts = statements === null ? '' : `, ${plural(statements.texts.length, 'statement')}`;
  const kept = out === undefined ? 'The profile' : `The profile in ${out}`;
  return [
    `${kept}: ${database.name}, ${formatBytes(database.sizeBytes)}, ${plural(relations.length, 'relation')}${rates}${texts}`,
    ...unread.map(({ what, reason }) => `not read: ${what}: ${reason}`),
    ...(signed ? [] : ['It is not signed: anybody could make one (--receipt-key).']),
    '',
  ].join('\n');
}
