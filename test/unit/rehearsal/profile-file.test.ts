import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readProfile, sealedProfile } from '../../../src/rehearsal/profile/profile-file.ts';
import { temporaryFolder } from '../../helpers/cli.ts';
import { profiled, sampleProfile } from '../../helpers/profiles.ts';

const { seal: _, ...content } = sampleProfile([profiled('public.orders', 2 ** 30, 1_000_000)]);
const DAY_MS = 86_400_000;
const NOW = new Date(Date.parse(content.takenAt) + DAY_MS);

function read(text: string, more: { key?: string; maxAgeMs?: number; now?: Date } = {}) {
  const file = path.join(temporaryFolder(), 'production.profile.json');
  writeFileSync(file, text);
  return readProfile(file, more.key ?? null, more.maxAgeMs ?? 30 * DAY_MS, more.now ?? NOW);
}

describe('the file of a profile', () => {
  test.each([undefined, 'a key of ours'])(
    'holds what was taken, and how old it is (key: %s)',
    async (key) => {
      const { profile, ageMs } = await read(sealedProfile(content, key), key === undefined ? {} : { key });
      expect(profile).toMatchObject(content);
      expect(ageMs).toBe(DAY_MS);
    },
  );

  test('may have keys that this version does not know, which are sealed too', async () => {
    const more = { ...content, laterKey: [{ relation: 'public.orders' }] };
    const text = sealedProfile(more, 'key');
    await expect(read(text, { key: 'key' })).resolves.toMatchObject({ ageMs: DAY_MS });
    await expect(read(text.replace('"laterKey"', '"later"'), { key: 'key' })).rejects.toThrow(/was altered/);
  });

  test.each([
    [
      'a newer version',
      sealedProfile({ ...content, profile: 2 as 1 }, undefined),
      {},
      /format has version 2/,
    ],
    ['another size', sealedProfile(content, undefined).replace('1073741824', '10'), {}, /was altered/],
    ['no signature', sealedProfile(content, undefined), { key: 'key' }, /not signed/],
    ['another signature', sealedProfile(content, 'a'), { key: 'b' }, /signed with another key/],
    ['a signature without a key', sealedProfile(content, 'a'), {}, /--receipt-key/],
    [
      'its age',
      sealedProfile(content, undefined),
      { maxAgeMs: 3_600_000 },
      /1 d 0 h old.*--limit profile-age/,
    ],
    ['the future', sealedProfile(content, undefined), { now: new Date(0) }, /in the future/],
    ['another file', '{"receipt":1}', {}, /not a profile/],
    ['no JSON', 'orders', {}, /no JSON object/],
  ])('is refused for %s', async (_, text, more, words) => {
    await expect(read(text, more)).rejects.toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringMatching(words),
    });
  });
});
