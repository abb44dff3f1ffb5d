import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../helpers/cli.ts';
import { CLOSED, PLACES, type PlaceName } from '../helpers/online-places.ts';
import { disturbedSwap, onlineTarget } from '../helpers/online-trials.ts';
import { inThisShare } from '../helpers/share.ts';

const timeout = 120_000;

/** The places of the soak test of which each stands for others: their leftovers are of another kind. */
const KILLED: readonly PlaceName[] = [
  ...(['slot', 'closed for the clone', 'cloning', 'migrating', 'catching up'] as const),
  ...(['closed for the cut-over', 'handed over', 'renaming', 'renamed'] as const),
];

describe('an online swap that is killed', () => {
  const target = onlineTarget(18);

  test.each(inThisShare(KILLED, (name) => CLOSED.includes(name)))(
    'leaves the target open with all of its rows, and nothing but the agent is needed for that: %s',
    { timeout },
    async (name) => {
      const killed = await disturbedSwap(target(), {
        place: PLACES[name],
        disturb: ({ child }) => ({ onAnswer: () => void child.kill('SIGKILL') }),
      });
      expect(killed).toMatchObject({
        reached: true,
        signal: 'SIGKILL',
        swapped: name === 'renamed',
        left: name === 'renamed' ? [expect.stringMatching(/^database app_before_/)] : [],
      });
    },
  );

  test('leaves nothing but the file that it waited for', { timeout }, async () => {
    const file = path.join(temporaryFolder(), 'postponed');
    const killed = await disturbedSwap(target(), {
      place: [/^COMMENT ON DATABASE .*"cutOver":"postponed"/],
      options: ['--postpone-file', file],
      disturb: ({ child }) => ({ onAnswer: () => void child.kill('SIGKILL') }),
    });
    expect(killed).toMatchObject({ reached: true, signal: 'SIGKILL', swapped: false, left: [] });
    expect(existsSync(file)).toBe(true);
  });

  test.each(inThisShare(['closed for the clone', 'catching up', 'closed both'] as const))(
    'together with its agent leaves what clean repairs: %s',
    { timeout },
    async (name) => {
      const killed = await disturbedSwap(target(), {
        place: PLACES[name],
        disturb: ({ child, agent }) => {
          process.kill(agent, 'SIGKILL');
          child.kill('SIGKILL');
          return 'forward';
        },
      });
      expect(killed).toMatchObject({ reached: true, signal: 'SIGKILL', swapped: false });
      expect(killed.left).not.toEqual([]);
    },
  );

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'by %s while the clone catches up leaves nothing',
    {
      timeout,
    },
    async (signal) => {
      const ended = await disturbedSwap(target(), {
        place: PLACES['catching up'],
        disturb: ({ child }) => {
          child.kill(signal);
          return 'forward';
        },
      });
      expect(ended).toMatchObject({
        reached: true,
        exitCode: signal === 'SIGINT' ? 130 : 143,
        swapped: false,
        left: [],
      });
      expect(ended.stderr).toContain('Interrupted');
    },
  );
});
