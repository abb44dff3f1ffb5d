import { afterAll, describe, expect, test } from 'vitest';
import { Productions } from '../helpers/escape-trials.ts';
import { nameOfAttempt, noEscapes, TESTED } from '../helpers/escapes.ts';
import { skipReason } from '../helpers/requirements.ts';

const productions = new Productions();
afterAll(() => productions.stop());

describe.skipIf(skipReason(noEscapes))('a way out of the rehearsal is stopped or reported', () => {
  test.each(TESTED.map((tried) => [nameOfAttempt(tried), tried] as const))('%s', async (_, tried) => {
    const { ending, changes, output } = await productions.attempt(tried);
    expect(ending, `${tried.escape.tries}: ${changes.join('; ')}\n${output}`).not.toBe('silent');
  });

  // Those send it through the proxy, which is not the sandbox's to stop.
  const commands = TESTED.filter(
    ({ escape: { file, name, byOthers } }) => !file.endsWith('.sql') && !byOthers && name !== 'long-text',
  );
  test.each(commands.map((tried) => [nameOfAttempt(tried), tried] as const))(
    '%s is prevented by the sandbox that it gets by default',
    async (_, tried) => {
      const { ending, changes, output } = await productions.attempt(tried, 'by default');
      expect(ending, `${tried.escape.tries}: ${changes.join('; ')}\n${output}`).toBe('stopped');
    },
  );
});
