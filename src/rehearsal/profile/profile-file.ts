import { readFileSync } from 'node:fs';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import type { Profile } from '../../model/profile-model.ts';
import { toolVersion } from '../../package.ts';
import { sealObjection, sealOf } from '../receipts/seal.ts';
import type { UnsealedProfile } from './take-profile.ts';

/** The newest version of the format that this program reads. */
const NEWEST = 1;

/** Clocks of two machines may differ by this. */
const CLOCKS_DIFFER_MS = 60_000;

/** Returns the text of a profile's file. @param key signs it; without one its seal is a checksum that anybody can make. */
export function sealedProfile(profile: UnsealedProfile, key: string | undefined): string {
  return `${JSON.stringify({ ...profile, seal: sealOf(profile, key) }, null, 1)}\n`;
}

/** A profile whose seal and age are proved. */
export interface ProvenProfile {
  readonly profile: Profile;
  readonly ageMs: number;
}

/** Reads a profile, and proves its seal and its age. @throws SafemigrateError `CONFIGURATION` */
export async function readProfile(
  file: string,
  key: string | null,
  maxAgeMs: number,
  now: Date,
): Promise<ProvenProfile> {
  const profile = await provenProfile(textOfFile(file), file, key ?? undefined);
  const ageMs = now.getTime() - Date.parse(profile.takenAt);
  if (ageMs < -CLOCKS_DIFFER_MS)
    throw refused(file, `it is of ${profile.takenAt}, which is in the future by this machine's clock`, CLOCK);
  if (ageMs > maxAgeMs)
    throw refused(
      file,
      `it is ${formatDuration(ageMs)} old, and may be ${formatDuration(maxAgeMs)} (--limit profile-age)`,
      'Take a new one: safemigrate profile --url … --out FILE. Nothing was touched.',
    );
  return { profile, ageMs: Math.max(0, ageMs) };
}

const CLOCK = "Set this machine's clock. Nothing was touched.";
const REMAKE = 'Take it with safemigrate profile --url … --out FILE. Nothing was touched.';

function textOfFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw refused(file, `it cannot be read: ${messageOf(cause)}`, REMAKE, cause);
  }
}

async function provenProfile(text: string, file: string, key: string | undefined): Promise<Profile> {
  const { seal, ...content } = objectIn(text, file);
  const { profile: version } = content;
  if (typeof version === 'number' && version > NEWEST)
    throw refused(
      file,
      `its format has version ${version}, and safemigrate ${toolVersion()} reads no newer one than ${NEWEST}`,
      'Update safemigrate here, or take the profile with the version that is used here. Nothing was touched.',
    );
  const { profileShape } = await import('../../model/profile-model.ts');
  const parsed = profileShape.safeParse({ ...content, seal });
  if (!parsed.success) throw refused(file, 'it is not a profile, or was altered', REMAKE);
  const objection = sealObjection(content, parsed.data.seal, key);
  if (objection !== undefined) throw refused(file, objection, REMAKE);
  return parsed.data;
}

function objectIn(text: string, file: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return { ...value };
  } catch {}
  throw refused(file, 'it is no JSON object', REMAKE);
}

function refused(file: string, why: string, hint: string, cause?: unknown): SafemigrateError {
  return new SafemigrateError('CONFIGURATION', `--profile: ${file} is refused: ${why}.`, {
    hint,
    ...(cause === undefined ? {} : { cause }),
  });
}
