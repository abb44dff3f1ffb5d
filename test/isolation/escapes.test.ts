import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Productions } from '../helpers/escape-trials.ts';
import { type Attempt, nameOfAttempt, noEscapes, TESTED } from '../helpers/escapes.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';

const productions = new Productions();
afterAll(() => productions.stop());

describe.skipIf(skipReason(noEscapes))('a way out of the rehearsal is stopped or reported', () => {
  // Those in SQL pass the proxy, which is not the sandbox's to stop.
  const commands = TESTED.filter(
    ({ escape: { file, name, byOthers } }) => !file.endsWith('.sql') && !byOthers && name !== 'long-text',
  );
  // Each gets one of the two ways here; `soak/escapes.test.ts` has all of both.
  const byDefault = commands.filter((_, at) => at % 2 === 0);
  const familyOf = (tried: Attempt) =>
    `${tried.clone} ${path.extname(tried.escape.file)} ${byDefault.includes(tried)}`;
  const share = inThisShare(TESTED, familyOf);
  const named = (list: readonly Attempt[]) => list.map((tried) => [nameOfAttempt(tried), tried] as const);

  test.each(named(share.filter((tried) => !byDefault.includes(tried))))('%s', async (_, tried) => {
    const { ending, changes, output } = await productions.attempt(tried);
    expect(ending, `${tried.escape.tries}: ${changes.join('; ')}\n${output}`).not.toBe('silent');
  });

  test.each(named(share.filter((tried) => byDefault.includes(tried))))(
    '%s is prevented by the sandbox that it gets by default',
    async (_, tried) => {
      const { ending, changes, output } = await productions.attempt(tried, 'by default');
      expect(ending, `${tried.escape.tries}: ${changes.join('; ')}\n${output}`).toBe('stopped');
    },
  );
});
