import { expect, test } from 'vitest';
import { Scope } from '../../src/scope.ts';

async function scopeWith(names: readonly string[], log: string[], fails?: string): Promise<Scope> {
  const scope = new Scope();
  for (const name of names)
    await scope.own(
      name,
      async () => name,
      async (value) => {
        await Promise.resolve();
        if (name === fails) throw new Error('held by somebody');
        log.push(`${value} released`);
      },
    );
  return scope;
}

test('what was acquired beyond a depth is released first, and the rest at the end, all of it in one result', async () => {
  const log: string[] = [];
  const scope = await scopeWith(['lock', 'session'], log);
  const { depth } = scope;
  for (const name of ['clone', 'proxy'])
    await scope.own(
      name,
      async () => name,
      async () => void log.push(`${name} released`),
    );
  await scope.releaseDownTo(depth);
  expect(log).toEqual(['proxy released', 'clone released']);
  expect(scope.depth).toBe(2);
  expect(await scope.release()).toEqual({ done: ['proxy', 'clone', 'session', 'lock'], failed: [] });
  expect(log).toEqual(['proxy released', 'clone released', 'session released', 'lock released']);
});

test('the end waits for a release that is under way, releases nothing twice, and tells what failed in it', async () => {
  const log: string[] = [];
  const scope = await scopeWith(['lock', 'clone', 'proxy'], log, 'clone');
  const early = scope.releaseDownTo(1);
  const [first, second] = await Promise.all([scope.release(), scope.release()]);
  await early;
  expect(second).toBe(first);
  expect(first).toEqual({
    done: ['proxy', 'lock'],
    failed: [{ name: 'clone', reason: 'held by somebody' }],
  });
  expect(log).toEqual(['proxy released', 'lock released']);
});
