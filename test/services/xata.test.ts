import type { Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const MAIN = {
  id: 'br-main',
  name: 'main',
  createdAt: '2026-01-01T00:00:00Z',
  updatedAt: '2026-01-01T00:00:00Z',
  region: 'us-east-1',
  publicAccess: true,
  backupsEnabled: true,
  parentID: null,
};
const branchOf = ({ id, name, createdAt }: Thing) => ({ ...MAIN, id, name, createdAt, parentID: MAIN.id });

await serviceSuite({
  service: 'xata',
  billed: /^hours of the instance, and by GB-months of the changed pages$/,
  of: 'org-1/project-1',
  program: 'xata',
  expired: 'Error: not logged in. Run xata auth login',
  kindOf: ([, verb]) =>
    verb === 'create' ? 'create' : verb === 'delete' ? 'destroy' : verb === 'list' ? 'list' : 'other',
  async answer(args, fake) {
    const [, verb, name = ''] = args;
    switch (verb) {
      case 'create':
        if (optionOf(args, '--parent-branch') !== MAIN.id) throw new Error('no such parent');
        return branchOf(await fake.create(optionOf(args, '--name')));
      case 'delete':
        return branchOf(await fake.destroy((thing) => thing.name === name));
      case 'describe': {
        const thing = fake.things.find((each) => each.name === name);
        if (thing === undefined) throw new Error('not found');
        const statusType = fake.isReady(thing) ? 'STATUS_TYPE_HEALTHY' : 'STATUS_TYPE_TRANSIENT';
        return { ...branchOf(thing), status: { statusType }, connectionString: thing.database?.url ?? null };
      }
      default:
        return [MAIN, ...fake.things.map(branchOf)];
    }
  },
});
