import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { BusyPolling } from '../../../src/proxy/busy-polling.ts';

/** Immediates that keep the event loop from sleeping. */
const polls = () => process.getActiveResourcesInfo().filter((type) => type === 'Immediate').length;
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('looking for the next message without sleeping', () => {
  const clock = vi.spyOn(performance, 'now');
  let now = 0;
  const wait = (milliseconds: number) => {
    now += milliseconds;
    clock.mockReturnValue(now);
  };
  beforeEach(() => wait(1000));
  afterEach(async () => {
    wait(1000);
    await turn();
    expect(polls()).toBe(0);
  });

  test('goes on behind a short wait, and ends soon if nothing comes', async () => {
    const heard = new BusyPolling(2).exchange();
    heard('client');
    wait(0.1);
    heard('server');
    for (let statement = 0; statement < 3; statement++) {
      wait(0.1);
      heard('client');
      expect(polls()).toBe(1);
      wait(0.2);
      await turn();
      expect(polls()).toBe(1);
      heard('server');
      expect(polls()).toBe(1);
    }
    wait(1);
    await turn();
    expect(polls()).toBe(0);
  });

  test('is not done for answers that take long, but for the statement behind each', async () => {
    const heard = new BusyPolling(2).exchange();
    for (let statement = 0; statement < 3; statement++) {
      wait(0.1);
      heard('client');
      wait(0.25);
      await turn();
      expect(polls()).toBe(0);
      wait(5);
      heard('server');
      expect(polls()).toBe(1);
    }
  });

  test('is not done while one side alone sends', () => {
    const heard = new BusyPolling(2).exchange();
    for (let chunk = 0; chunk < 10; chunk++) {
      wait(0.1);
      heard('client');
    }
    expect(polls()).toBe(0);
  });

  test('is not done if the server needs the only processor', () => {
    const heard = new BusyPolling(1).exchange();
    for (let message = 0; message < 10; message++) {
      wait(0.1);
      heard(message % 2 === 0 ? 'client' : 'server');
    }
    expect(polls()).toBe(0);
  });
});
