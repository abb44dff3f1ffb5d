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

test('what was acquired last is released first', async () => {
  const log: string[] = [];
  const scope = await scopeWith(['lock', 'session', 'clone'], log);
  expect(await scope.release()).toEqual({ done: ['clone', 'session', 'lock'], failed: [] });
  expect(log).toEqual(['clone released', 'session released', 'lock released']);
});

test('nothing is released twice, and what fails is reported and stops nothing', async () => {
  const log: string[] = [];
  const scope = await scopeWith(['lock', 'clone', 'proxy'], log, 'clone');
  const [first, second] = await Promise.all([scope.release(), scope.release()]);
  expect(second).toBe(first);
  expect(first).toEqual({
    done: ['proxy', 'lock'],
    failed: [{ name: 'clone', reason: 'held by somebody' }],
  });
  expect(log).toEqual(['proxy released', 'lock released']);
});
