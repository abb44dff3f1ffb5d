import { expect, test } from 'vitest';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { Work } from '../../../src/schema/work.ts';

const [one, other] = ['one', 'other'].map((database) => ({ database }) as Session) as [Session, Session];

/** Questions that note who took them, and end when they are told to. */
function questions(count: number): { work: Work; taken: string[]; ends: (() => void)[] } {
  const [work, taken, ends]: [Work, string[], (() => void)[]] = [new Work(), [], []];
  for (let n = 0; n < count; n++) {
    void work.add(async ({ database }) => {
      taken.push(`${n} by ${database}`);
      await new Promise<void>((end) => ends.push(end));
    });
  }
  return { work, taken, ends };
}

async function endAll(ends: (() => void)[]): Promise<void> {
  for (let end = ends.shift(); end; end = ends.shift()) {
    end();
    await new Promise(setImmediate);
  }
}

test('one session takes the questions from the front, the other from the back, and none is asked twice', async () => {
  const { work, taken, ends } = questions(5);
  const both = Promise.all([work.takeFromFront(one), work.takeFromBack(other)]);
  expect(taken).toEqual(['0 by one', '4 by other']);
  await endAll(ends);
  await both;
  expect(taken.map((each) => each[0]).sort()).toEqual(['0', '1', '2', '3', '4']);
});

test('a session that comes too late finds nothing to do', async () => {
  const { work, ends } = questions(2);
  const mine = work.takeFromFront(one);
  await endAll(ends);
  await mine;
  await work.allTaken;
  expect(work.isEmpty).toBe(true);
  await work.takeFromBack(other);
});

test('with a question that fails all fail that nobody has taken', async () => {
  const work = new Work();
  const [first, second] = [
    work.add(() => Promise.reject(new Error('no such table'))),
    work.add(async () => 'never asked'),
  ];
  await work.takeFromFront(one);
  await expect(first).rejects.toThrow('no such table');
  await expect(second).rejects.toThrow('no such table');
});
