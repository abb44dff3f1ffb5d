import { expect, test } from 'vitest';
import { rds } from '../../../src/clone/services/rds.ts';
import { allServices } from '../../../src/clone/services/service-list.ts';
import { nameOfClone, parseCloneName, serverDigits } from '../../../src/clone/services/service-name.ts';
import { parseSource } from '../../../src/clone/services/service-source.ts';
import { SafemigrateError } from '../../../src/errors.ts';
import { newRunId, startOf } from '../../../src/ownership/run-id.ts';

const run = newRunId(Date.UTC(2026, 10, 26, 12));
const place = serverDigits({ host: 'db.example.com', port: 5432 });

test('the name of a clone at a service holds its mark, in the form that all services take', () => {
  const name = nameOfClone({ run, place, ttlMs: 6 * 3_600_000, kept: false });
  expect(name).toMatch(/^[a-z](?!.*--)[a-z0-9-]{0,48}[a-z0-9]$/);
  expect(parseCloneName(name)).toEqual({ run, place, kept: false, expiresAt: '2026-11-26T18:00:00Z' });
  expect(startOf(run)).toBe(Date.UTC(2026, 10, 26, 12));
});

test('a name is not ours if a single character of it is changed', () => {
  const name = nameOfClone({ run, place, ttlMs: 60_000, kept: true });
  expect(parseCloneName(name)).not.toBeNull();
  for (let at = 0; at < name.length; at++) {
    const other = name[at] === '1' ? '2' : '1';
    expect(parseCloneName(name.slice(0, at) + other + name.slice(at + 1)), String(at)).toBeNull();
  }
  expect(parseCloneName('safemigrate-by-hand')).toBeNull();
});

test.each(['shop', 'eu-west-1/shop'])('the source %s of RDS is accepted', (text) => {
  expect(parseSource(rds, text)).toEqual(text.split('/'));
});

test.each(['', 'a/b/c', '--profile=x', 'eu/--x', 'a b', 'a;b'])(
  'the source "%s" of RDS is refused',
  (text) => {
    expect(() => parseSource(rds, text)).toThrow('SAFEMIGRATE_CLONE_OF');
  },
);

test('the refusal of a source says what helps, not only that nothing happened', () => {
  const { hint } = thrownBy(() => parseSource(rds, 'a/b/c'));
  // A method that cannot be used shows the hint without this sentence.
  expect(hint?.replace(/ ?The target was not touched\.$/, '')).toMatch(/^Set it\b/);
});

test.each([
  ['rds', 'shop.c9akciq32.eu-west-1.rds.amazonaws.com', ['eu-west-1', 'shop']],
  ['aurora', 'shop.cluster-c9akciq32.eu-west-1.rds.amazonaws.com', ['eu-west-1', 'shop']],
  ['azure', 'shop.postgres.database.azure.com', ['shop']],
  ['tiger', 'kd9w2xp4mz.rp1pz7uyae.tsdb.cloud.timescale.com', ['kd9w2xp4mz']],
])('the host of %s contains the source', async (id, host, source) => {
  const services = await allServices();
  const service = services.find((each) => each.id === id) ?? expect.fail();
  const match = service.signs.host?.exec(host) ?? expect.fail();
  expect(parseSource(service, service.sourceIn(match, 'me') ?? '')).toEqual(source);
  const recognised = services.filter(({ signs }) => signs.host?.test(host));
  expect(recognised).toEqual([service]);
});

function thrownBy(run: () => unknown): SafemigrateError {
  try {
    run();
  } catch (error) {
    if (error instanceof SafemigrateError) return error;
  }
  return expect.fail('nothing was refused');
}
