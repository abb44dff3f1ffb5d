import * as z from 'zod/mini';
import type { CloneService, ServiceClone, Source } from './clone-service.ts';

const branch = z.object({
  id: z.string(),
  name: z.string(),
  is_default: z.boolean(),
  persistent: z.optional(z.boolean()),
  status: z.string(),
  preview_project_status: z.optional(z.nullable(z.string())),
  deletion_scheduled_at: z.optional(z.nullable(z.string())),
});
const branches = z.nullable(z.array(branch));
const variables = z.object({ POSTGRES_URL_NON_POOLING: z.string() });

/** Since version 3 the program asks before it changes a hosted project, and with JSON output it refuses instead. */
function inProject([project = '']: Source): string[] {
  return ['--project-ref', project, '--yes', '--output', 'json'];
}

/** Supabase: a preview branch that is made with the project's data. */
export const supabase: CloneService = {
  title: 'Supabase',
  program: 'supabase',
  login: 'supabase login',
  sourceForm: 'project-ref',
  strategy: 'restore',
  readyMs: 10 * 60_000,
  readsLazily: false,
  cost: 'another project while the run lasts, on a paid plan',
  billing: { machine: "hours of the project's compute", storage: 'GB-hours of its disk' },
  rights: "the project's branches: read, create, delete",
  signs: { host: /^db\.([a-z]{20})\.supabase\.co$|\.pooler\.supabase\.com$/, role: 'supabase_admin' },
  // The pooler has one name for all projects, and finds the project in the user.
  sourceIn: ([, project], user) => project ?? /\.([a-z]{20})$/.exec(user)?.[1] ?? null,
  async inspect(cli, source) {
    await cli.json(['branches', 'list', ...inProject(source)], branches);
    return { instance: null, asOf: null };
  },
  async create(cli, { source, name }) {
    await cli.text(['branches', 'create', name, '--with-data', ...inProject(source)]);
  },
  async list(cli, source) {
    const found = await cli.json(['branches', 'list', ...inProject(source)], branches);
    return (found ?? []).map((each) => ({
      id: each.id,
      name: each.name,
      state: stateOf(each),
      asOf: null,
      doubt: each.is_default || each.persistent ? 'it is a default or persistent branch' : null,
    }));
  },
  // A branch is another project, with a role and a password that its own URL has.
  async address(cli, { id }, { source, database }) {
    const found = await cli.json(['branches', 'get', id, ...inProject(source)], variables);
    return { url: found.POSTGRES_URL_NON_POOLING, database };
  },
  async destroy(cli, { id }, source) {
    await cli.text(['branches', 'delete', id, ...inProject(source)]);
  },
};

function stateOf(each: z.infer<typeof branch>): ServiceClone['state'] {
  const { status, preview_project_status: project } = each;
  if (each.deletion_scheduled_at || project === 'GOING_DOWN' || project === 'REMOVED') return 'deleting';
  if (/FAILED$/.test(status) || /FAILED$|^INACTIVE$/.test(project ?? '')) return 'failed';
  const isMade = status === 'MIGRATIONS_PASSED' || status === 'FUNCTIONS_DEPLOYED';
  return isMade && (project ?? 'ACTIVE_HEALTHY') === 'ACTIVE_HEALTHY' ? 'ready' : 'creating';
}
