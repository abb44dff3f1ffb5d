import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceCli, ServiceClone, Source } from './clone-service.ts';
import { looksLikeOurs } from './service-name.ts';

const branch = z.object({
  id: z.string(),
  name: z.string(),
  createdAt: z.string(),
  parentID: z.optional(z.nullable(z.string())),
});
const branches = z.union([z.array(branch), z.object({ branches: z.array(branch) })]);
const described = z.object({
  connectionString: z.optional(z.nullable(z.string())),
  status: z.object({ statusType: z.string() }),
});

function inProject([organization = '', project = '']: Source): string[] {
  return ['--organization', organization, '--project', project, '--json'];
}

/** Xata: a branch, which shares all pages with its parent. */
export const xata: CloneService = {
  title: 'Xata',
  program: 'xata',
  login: 'xata auth login',
  sourceForm: 'organization/project[/branch]',
  strategy: 'copy-on-write',
  readyMs: 30_000,
  readsLazily: false,
  rights: "the project's branches: read, create, delete",
  cost: 'an instance while the run lasts, and the pages that the command changes',
  billing: { machine: 'hours of the instance', storage: 'GB-months of the changed pages' },
  signs: { host: /\.xata\.(?:tech|io|sh)$/ },
  sourceIn: () => null,
  async inspect(cli, source) {
    await parentOf(cli, source);
    return { instance: null, asOf: null };
  },
  async create(cli, { source, name }) {
    const { id } = await parentOf(cli, source);
    await cli.text(['branch', 'create', '--name', name, '--parent-branch', id, ...inProject(source)]);
  },
  async list(cli, source) {
    const found = await branchesOf(cli, source);
    return Promise.all(
      found.map(async ({ id, name, createdAt, parentID }) => ({
        id,
        name,
        state: looksLikeOurs(name) ? stateOf(await describe(cli, source, name)) : 'ready',
        asOf: createdAt,
        doubt: parentID ? null : 'it is a branch without a parent',
      })),
    );
  },
  async address(cli, { name }, { source, database }) {
    const { connectionString } = await describe(cli, source, name);
    return { url: connectionString ?? '', database };
  },
  async destroy(cli, { name }, source) {
    await cli.text(['branch', 'delete', name, '--yes', ...inProject(source)]);
  },
};

async function branchesOf(cli: ServiceCli, source: Source): Promise<z.infer<typeof branch>[]> {
  const found = await cli.json(['branch', 'list', ...inProject(source)], branches);
  return Array.isArray(found) ? found : found.branches;
}

async function parentOf(cli: ServiceCli, source: Source): Promise<z.infer<typeof branch>> {
  const [, project, name = 'main'] = source;
  const found = (await branchesOf(cli, source)).find((each) => each.name === name);
  if (found !== undefined) return found;
  throw new SafemigrateError('CLONE', `The project ${project} has no branch ${name}.`, {
    hint: 'SAFEMIGRATE_CLONE_OF organization/project/branch names another one. The target was not touched.',
  });
}

function describe(cli: ServiceCli, source: Source, name: string): Promise<z.infer<typeof described>> {
  return cli.json(['branch', 'describe', name, ...inProject(source)], described);
}

function stateOf({ status }: z.infer<typeof described>): ServiceClone['state'] {
  if (status.statusType === 'STATUS_TYPE_FAULT') return 'failed';
  return status.statusType === 'STATUS_TYPE_HEALTHY' ? 'ready' : 'creating';
}
