import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const MAIN = {
  id: 'main-id',
  name: 'main',
  cluster_name: 'PS_10_AWS_X86',
  cluster_display_name: 'PS-10',
  state: 'ready',
  ready: true,
  production: true,
  kind: 'postgresql',
  created_at: '2026-01-01T00:00:00Z',
};
const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
const BACKUPS = [
  { id: 'running', state: 'running', completed_at: '0001-01-01T00:00:00Z' },
  { id: 'newest', state: 'success', completed_at: hoursAgo(24) },
  { id: 'older', state: 'success', completed_at: hoursAgo(48) },
];

function branchOf(thing: Thing, fake: FakeService) {
  const { id, name, createdAt } = thing;
  const ready = fake.isReady(thing);
  return { ...MAIN, id, name, ready, production: false, created_at: createdAt };
}

await serviceSuite({
  service: 'planetscale',
  playsLoad: true,
  of: 'acme/shop',
  billed:
    /^hours of the cluster size \(PS-10\), and by GB-months of the data beyond the included ones \(\d.* MB\)$/,
  program: 'pscale',
  expired: 'not authenticated yet. Please run "pscale auth login"',
  printedFailure: (error) => ({
    status: 'action_required',
    error,
    issues: [{ code: 'ERROR', message: error }],
  }),
  doubt: /The clone is PlanetScale's: its data is (1 d|24)/,
  kindOf: ([noun, verb]) => {
    if (noun === 'role') return 'change';
    if (noun !== 'branch') return 'other';
    return verb === 'create' ? 'create' : verb === 'delete' ? 'destroy' : 'list';
  },
  async answer(args, fake) {
    const [noun, verb, , name = ''] = args;
    if (noun === 'backup') return BACKUPS;
    if (noun === 'role') {
      const { database, host, port } = fake.things.find((thing) => thing.name === name) as Thing;
      const { username, password } = new URL(database?.url ?? '');
      return {
        id: 'r',
        name,
        access_host_url: `${host}:${port}`,
        username,
        password,
        database_name: 'postgres',
      };
    }
    switch (verb) {
      case 'create':
        if (optionOf(args, '--restore') !== 'newest' || optionOf(args, '--cluster-size') !== 'PS-10')
          throw new Error('not the newest backup, or of another size');
        return branchOf(await fake.create(name), fake);
      case 'delete':
        await fake.destroy((thing) => thing.name === name);
        return { result: 'branch deleted', branch: name };
      default: {
        const [page, size] = [Number(optionOf(args, '--page')), Number(optionOf(args, '--per-page'))];
        const all = [MAIN, ...fake.things.map((thing) => branchOf(thing, fake))];
        return all.slice((page - 1) * size, page * size);
      }
    }
  },
});
