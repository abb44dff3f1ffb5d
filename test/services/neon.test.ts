import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const BRANCH = {
  id: 'br-main',
  name: 'main',
  default: true,
  protected: false,
  current_state: 'ready',
  created_at: '2026-01-01T00:00:00Z',
};

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

await serviceSuite({
  service: 'neon',
  thorough: true,
  of: 'cool-project-1',
  program: 'neon',
  expired: 'ERROR: Authentication required. Run neon auth',
  kindOf: ([, verb]) =>
    verb === 'create' ? 'create' : verb === 'delete' ? 'destroy' : verb === 'list' ? 'list' : 'other',
  async answer(args, fake) {
    const [noun, verb = '', third = ''] = args;
    if (noun === 'connection-string') {
      const thing = fake.things.find(({ id }) => id === verb);
      return `${thing?.database?.url}?sslmode=require&channel_binding=require\n`;
    }
    if (verb === 'create') await fake.create(optionOf(args, '--name'));
    if (verb === 'delete') await fake.destroy(({ id }) => id === third);
    return [BRANCH, ...fake.things.map((thing) => branchOf(thing, fake))];
  },
});
