import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { optionOf, serviceSuite } from './suite.ts';

const BRANCH = {
  id: 'br-main',
  name: 'main',
  default: true,
  protected: false,
  current_state: 'ready',
  created_at: '2026-01-01T00:00:00Z',
};

const PAGE_SIZE = 100;

/** Neon's own pages: the caller has to ask for the rest. */
function pageOf(args: readonly string[], branches: readonly object[]) {
  const cursor = args.find((each) => each.startsWith('cursor='));
  const from = Number(cursor?.slice('cursor='.length) ?? 0);
  const until = from + PAGE_SIZE;
  const pagination = until < branches.length ? { next: String(until) } : {};
  return { branches: branches.slice(from, until), pagination };
}

function branchOf(thing: Thing, fake: FakeService) {
  const { id, name, createdAt } = thing;
  const state = fake.isReady(thing) ? 'ready' : 'init';
  return {
    id,
    name,
    parent_id: BRANCH.id,
    default: false,
    protected: false,
    current_state: state,
    created_at: createdAt,
  };
}

const neon = await serviceSuite({
  service: 'neon',
  thorough: true,
  of: 'cool-project-1',
  program: 'neon',
  expired: 'ERROR: Authentication required. Run neon auth',
  kindOf: ([noun, verb]) =>
    verb === 'create' ? 'create' : verb === 'delete' ? 'destroy' : noun === 'api' ? 'list' : 'other',
  async answer(args, fake) {
    const [noun, verb = '', third = ''] = args;
    if (noun === 'connection-string') {
      const thing = fake.things.find(({ id }) => id === verb);
      return `${thing?.database?.url}?sslmode=require&channel_binding=require\n`;
    }
    if (verb === 'create') await fake.create(optionOf(args, '--name'));
    if (verb === 'delete') await fake.destroy(({ id }) => id === third);
    if (noun !== 'api') return {};
    return pageOf(args, [BRANCH, ...fake.things.map((thing) => branchOf(thing, fake))]);
  },
});

test('load is played on a branch of its own, and both branches are removed', async () => {
  const script = path.join(temporaryFolder(), 'reads.sql');
  writeFileSync(script, 'SELECT count(*) FROM items;');
  const { report } = await rehearse(
    neon.target?.url ?? '',
    sqlCommand('ALTER TABLE items ADD COLUMN name text'),
    {
      args: ['--clone', 'neon', '--load', script],
      env: {
        SAFEMIGRATE_CLONE_OF: 'cool-project-1',
        SAFEMIGRATE_LOAD_RATE: '50',
        SAFEMIGRATE_LOAD_WARMUP: '1s',
      },
    },
  );
  // The fake's servers are of two versions, so that the schemas are not compared here.
  expect(report.load).toMatchObject({ source: 'pgbench', command: { exitCode: 0 } });
  expect(report.load?.before.transactions).toBeGreaterThan(10);
  const created = neon.calls('create').map((args) => optionOf(args, '--name'));
  expect(new Set(created).size).toBe(2);
  expect(neon.things.filter(({ name }) => created.includes(name))).toEqual([]);
  expect(report.cleanup.failed).toEqual([]);
});
