import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { serviceSuite } from './suite.ts';

const MAIN = {
  id: '6f1c2f0a-0000-4000-8000-000000000000',
  name: 'main',
  project_ref: 'aaaaaaaaaaaaaaaaaaaa',
  parent_project_ref: 'aaaaaaaaaaaaaaaaaaaa',
  is_default: true,
  persistent: true,
  status: 'FUNCTIONS_DEPLOYED',
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
  with_data: false,
};

function branchOf(thing: Thing, fake: FakeService) {
  const { id, name, createdAt } = thing;
  const ready = fake.isReady(thing);
  return {
    ...MAIN,
    id,
    name,
    is_default: false,
    persistent: false,
    with_data: true,
    status: ready ? 'MIGRATIONS_PASSED' : 'CREATING_PROJECT',
    preview_project_status: ready ? 'ACTIVE_HEALTHY' : 'COMING_UP',
    created_at: createdAt,
  };
}

await serviceSuite({
  service: 'supabase',
  of: 'aaaaaaaaaaaaaaaaaaaa',
  program: 'supabase',
  expired: 'Access token not provided. Supply an access token by running supabase login',
  doubt: /The clone is Supabase's: .*not known as of when/,
  kindOf: ([, verb]) =>
    verb === 'create' ? 'create' : verb === 'delete' ? 'destroy' : verb === 'list' ? 'list' : 'other',
  async answer([, verb, name = ''], fake) {
    switch (verb) {
      case 'create': {
        const made = branchOf(await fake.create(name), fake);
        return `Created preview branch:\n${JSON.stringify(made)}\n`;
      }
      case 'get': {
        const url = fake.things.find(({ id }) => id === name)?.database?.url;
        return { POSTGRES_URL: url, POSTGRES_URL_NON_POOLING: url, SUPABASE_URL: 'https://x.supabase.co' };
      }
      case 'delete':
        await fake.destroy(({ id }) => id === name);
        return '';
      default:
        return [MAIN, ...fake.things.map((thing) => branchOf(thing, fake))];
    }
  },
});
