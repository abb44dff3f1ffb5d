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

  // They have another program do it, or send it through the proxy.
  const byOthers = ['job-spool', 'job-stays', 'long-text'];
  const commands = TESTED.filter(
    ({ escape: { file, name } }) => !file.endsWith('.sql') && !byOthers.includes(name),
  );
  test.each(commands.map((tried) => [nameOfAttempt(tried), tried] as const))(
    '%s is prevented by the sandbox that it gets by default',
    async (_, tried) => {
      const { ending, changes, output } = await productions.attempt(tried, 'by default');
      expect(ending, `${tried.escape.tries}: ${changes.join('; ')}\n${output}`).toBe('stopped');
    },
  );
});
