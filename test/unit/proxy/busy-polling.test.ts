import { afterEach, describe, expect, test, vi } from 'vitest';
import { BusyPolling } from '../../../src/proxy/busy-polling.ts';

/** Immediates that keep the event loop from sleeping. */
const polls = () => process.getActiveResourcesInfo().filter((type) => type === 'Immediate').length;
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('looking for the next message without sleeping', () => {
  const clock = vi.spyOn(performance, 'now');
  afterEach(() => {
    clock.mockReset();
  });

  test('begins with a message, goes on behind it, and ends soon if no other comes', async () => {
    const polling = new BusyPolling(2);
    for (const at of [1000, 2000]) {
      clock.mockReturnValue(at);
      polling.extend();
      polling.extend();
      expect(polls()).toBe(1);
      for (let look = 0; look < 3; look++) {
        await turn();
        expect(polls()).toBe(1);
      }
      clock.mockReturnValue(at + 1);
      await turn();
      expect(polls()).toBe(0);
    }
  });

  test('is not done if the server needs the only processor', () => {
    new BusyPolling(1).extend();
    expect(polls()).toBe(0);
  });
});
