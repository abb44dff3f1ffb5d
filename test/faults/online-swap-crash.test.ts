import { describe, expect, test } from 'vitest';
import { PLACES } from '../helpers/online-places.ts';
import { disturbedSwap, onlineTarget } from '../helpers/online-trials.ts';

describe('an online swap whose server crashes and comes back', () => {
  const target = onlineTarget(18);

  test.each([
    ...(['slot', 'cloning', 'cloned and opened', 'catching up'] as const),
    ...(['closed for the cut-over', 'closed both', 'renamed'] as const),
  ])('leaves the target open with all of its rows: %s', { timeout: 120_000 }, async (name) => {
    let restarted: Promise<void> | undefined;
    const crashed = await disturbedSwap(target(), {
      place: PLACES[name],
      disturb: () => ({
        // Called for each part of the answer.
        onAnswer: () => {
          restarted ??= target().server.restart('immediate');
          return restarted;
        },
      }),
    });
    await restarted;
    expect(crashed.reached).toBe(true);
    expect(crashed.stderr).not.toContain('Internal error');
    expect(crashed).toMatchObject(
      name === 'renamed'
        ? { swapped: true }
        : {
            exitCode: 4,
            swapped: false,
            swap: { outcome: 'undone', reasons: [expect.stringContaining('lost')] },
          },
    );
    if (name !== 'renamed') expect(crashed.left).toEqual([]);
  });
});
