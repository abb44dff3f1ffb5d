import { identifier } from '../../src/postgres/sql/quote.ts';
import { withClient } from '../helpers/client.ts';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { serverUrl } from '../helpers/servers.ts';
import { optionOf, serviceSuite } from './suite.ts';

const YESTERDAY = new Date(Date.now() - 24 * 3_600_000).toISOString();
const SNAPSHOT = { id: 'pool@snapshot_1', branch: 'main', dataStateAt: YESTERDAY, numClones: 1 };

function cloneOf(thing: Thing, fake: FakeService) {
  const { name, host, port, createdAt } = thing;
  return {
    id: name,
    snapshot: SNAPSHOT,
    branch: 'main',
    protected: false,
    deleteAt: null,
    createdAt,
    status: { code: fake.isReady(thing) ? 'OK' : 'CREATING', message: '' },
    db: { connStr: '', host, port: String(port), username: 'app', password: '', dbName: '' },
  };
}

await serviceSuite({
  service: 'dblab',
  of: 'main',
  program: 'dblab',
  expired: '[ERROR]: Check your verification token.',
  doubt: /The clone is DBLab Engine's: its data is (1 d|24)/,
  kindOf: ([noun, verb]) => {
    if (noun !== 'clone') return 'other';
    return verb === 'create' ? 'create' : verb === 'destroy' ? 'destroy' : 'list';
  },
  async answer(args, fake) {
    const [noun, verb, id = ''] = args;
    if (noun === 'snapshot')
      return [SNAPSHOT, { ...SNAPSHOT, branch: 'other', dataStateAt: '2020-01-01T00:00:00Z' }];
    switch (verb) {
      case 'create': {
        const thing = await fake.create(optionOf(args, '--id'));
        // The engine makes this role a superuser with this password; the servers of the tests have it already.
        const login = [identifier(optionOf(args, '--username')), optionOf(args, '--password')] as const;
        await withClient(serverUrl(thing.database?.version ?? 17), (client) =>
          client.query(`ALTER ROLE ${login[0]} PASSWORD '${login[1]}'`),
        );
        return `ID: ${thing.name}\nBranch: main\n`;
      }
      case 'destroy':
        if (args.length > 3) throw new Error('the program does not read options after an id');
        await fake.destroy(({ name }) => name === id);
        return `The clone has been successfully destroyed: ${id}\n`;
      default:
        return fake.things.map((thing) => cloneOf(thing, fake));
    }
  },
});
