import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceCli, Source, SourceFacts } from './clone-service.ts';

const page = z.object({
  branches: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      parent_id: z.optional(z.nullable(z.string())),
      default: z.optional(z.boolean()),
      protected: z.optional(z.boolean()),
      current_state: z.optional(z.string()),
      created_at: z.string(),
      parent_timestamp: z.optional(z.nullable(z.string())),
    }),
  ),
  pagination: z.optional(z.object({ next: z.optional(z.nullable(z.string())) })),
});

interface NeonSource extends SourceFacts {
  readonly parent: string;
}

/** `neon branches list` prints the first page and no more (6.2.3), so that a clone could be missed. */
async function branchesOf(cli: ServiceCli, [project = '']: Source) {
  const branches: z.infer<typeof page>['branches'] = [];
  let cursor: string | null | undefined;
  do {
    const after = cursor ? ['--query', `cursor=${cursor}`] : [];
    const call = ['api', `/projects/${project}/branches`, '--query', 'limit=1000', ...after];
    const read = await cli.json([...call, '--output', 'json'], page);
    branches.push(...read.branches);
    cursor = read.branches.length === 0 ? null : read.pagination?.next;
  } while (cursor);
  return branches;
}

/** Neon: a branch, which shares all pages with its parent. Neon itself deletes it when it expires. */
export const neon: CloneService<NeonSource> = {
  title: 'Neon',
  program: 'neon',
  login: 'neon auth',
  sourceForm: 'project[/branch]',
  strategy: 'copy-on-write',
  readyMs: 10_000,
  readsLazily: false,
  cost: 'a compute while the run lasts, and the pages that the command changes',
  billing: { machine: 'CU-hours of the compute', storage: 'GB-months of the changed pages' },
  rights: "the project's branches: read, create, delete",
  signs: { host: /\.neon\.tech$/, role: 'neon_superuser' },
  sourceIn: () => null,
  async inspect(cli, source) {
    const [project = '', branch = ''] = source;
    const found = await branchesOf(cli, source);
    const parent = found.find((each) =>
      branch === '' ? each.default : branch === each.name || branch === each.id,
    );
    if (parent !== undefined) return { instance: null, asOf: null, parent: parent.id };
    throw new SafemigrateError(
      'CLONE',
      `The project ${project} has no branch ${branch || 'that is the default'}.`,
      {
        hint: 'SAFEMIGRATE_CLONE_OF project/branch names another one. The target was not touched.',
      },
    );
  },
  async create(cli, { source: [project = ''], name, expiresAt }, { parent }) {
    // By its id: the program looks for names, and for the default branch, on the first page only (6.2.3).
    const of = ['--project-id', project, '--name', name, '--parent', parent, '--expires-at', expiresAt];
    await cli.text(['branches', 'create', ...of, '--output', 'json']);
  },
  async list(cli, source) {
    const found = await branchesOf(cli, source);
    return found.map((each) => ({
      id: each.id,
      name: each.name,
      state: each.current_state === 'init' ? 'creating' : 'ready',
      asOf: each.parent_timestamp ?? each.created_at,
      doubt:
        each.default || each.protected || !each.parent_id
          ? 'it is a default, protected or root branch'
          : null,
    }));
  },
  async address(cli, { id }, { source: [project = ''], database, user }) {
    const of = ['--project-id', project, '--database-name', database, '--role-name', user];
    return { url: (await cli.text(['connection-string', id, ...of])).trim() };
  },
  async destroy(cli, { id }, [project = '']) {
    await cli.text(['branches', 'delete', id, '--project-id', project, '--output', 'json']);
  },
};
