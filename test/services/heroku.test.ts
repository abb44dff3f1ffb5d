import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const SERVICE = { id: '062a1cc7-f79f-404c-9f91-135f70175577', name: 'heroku-postgresql' };
const PLAN = { id: 'aaaaaaaa-369d-452e-bdfc-db35073e971a', name: 'heroku-postgresql:premium-3' };
const SOURCE = {
  id: 'e00e794c-60ef-11e5-a8c7-2cf0ee2c94de',
  name: 'postgresql-curved-12345',
  state: 'provisioned',
  created_at: '2026-01-01T00:00:00Z',
  config_vars: ['DATABASE_URL', 'HEROKU_POSTGRESQL_CHARCOAL_URL'],
  addon_service: SERVICE,
  plan: PLAN,
  app: { id: '68878cbc-60ed-11e5-aa97-2cf0ee2c94de', name: 'shop' },
};

function addonOf(thing: Thing, fake: FakeService) {
  return {
    ...SOURCE,
    id: thing.id,
    name: thing.name,
    state: fake.isReady(thing) ? 'provisioned' : 'provisioning',
    created_at: thing.createdAt,
    config_vars: ['HEROKU_POSTGRESQL_PINK_URL'],
    app: { id: 'a84b035c-4c83-11e5-9bda-2cf0ee2c94de', name: 'shop-clones' },
  };
}

await serviceSuite({
  service: 'heroku',
  billed: /^hours of the plan \(heroku-postgresql:premium-3\)$/,
  of: 'shop/DATABASE_URL/shop-clones',
  program: 'heroku',
  expired: 'Error: Invalid credentials provided.\n\nError ID: unauthorized',
  kindOf: ([verb]) =>
    verb === 'addons:create'
      ? 'create'
      : verb === 'addons:destroy'
        ? 'destroy'
        : verb === 'addons'
          ? 'list'
          : 'other',
  async answer(args, fake) {
    const [verb, first] = args;
    const app = optionOf(args, '--app');
    switch (verb) {
      case 'addons':
        return app === 'shop' ? [SOURCE] : fake.things.map((thing) => addonOf(thing, fake));
      case 'addons:create':
        if (first !== PLAN.name || args.slice(-3).join(' ') !== '-- --fork shop::DATABASE_URL')
          throw new Error('it is another fork');
        if (app !== 'shop-clones') throw new Error('the app of production would be restarted');
        await fake.create(optionOf(args, '--name'));
        return 'The add-on is being created in the background.';
      case 'addons:destroy':
        if (optionOf(args, '--confirm') !== app) throw new Error('Confirmation did not match');
        await fake.destroy(({ name }) => name === first);
        return '';
      case 'pg:credentials:url': {
        const url = fake.things.find(({ name }) => name === first)?.database?.url ?? '';
        return `Connection information for default credential.\nConnection URL:\n   ${url.replace('postgresql:', 'postgres:')}\n`;
      }
      default:
        return '';
    }
  },
});
