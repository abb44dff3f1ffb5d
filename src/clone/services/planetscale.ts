import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceCli, Source, SourceFacts } from './clone-service.ts';

const branch = z.object({
  id: z.string(),
  name: z.string(),
  ready: z.boolean(),
  production: z.optional(z.boolean()),
  cluster_display_name: z.optional(z.string()),
});
const branches = z.nullable(z.array(branch));
const backup = z.object({ id: z.string(), state: z.string(), completed_at: z.string() });
const backups = z.nullable(z.array(backup));
const role = z.object({ access_host_url: z.string(), username: z.string(), password: z.string() });

interface BranchSource extends SourceFacts {
  readonly backup: string;
}

/** The most that the service lists at once. */
const PAGE = 100;

function at([organization = '']: Source): string[] {
  return ['--org', organization, '--format', 'json'];
}

/** PlanetScale: a branch that is restored from the newest backup. */
export const planetscale: CloneService<BranchSource> = {
  title: 'PlanetScale',
  program: 'pscale',
  login: 'pscale auth login',
  sourceForm: 'organization/database[/branch]',
  strategy: 'backup',
  readyMs: 15 * 60_000,
  readsLazily: false,
  cost: "a cluster of the source's size, while the run lasts",
  billing: {
    machine: 'hours of the cluster size',
    storage: 'GB-months of the data beyond the included ones',
    byData: true,
  },
  rights: "the database's branches, backups and roles: read, create, delete",
  signs: { host: /\.psdb\.cloud$/ },
  sourceIn: () => null,
  async inspect(cli, source) {
    const [, database = '', name = 'main'] = source;
    const found = (await branchesOf(cli, source)).find((each) => each.name === name);
    if (found === undefined) throw missing(`The database ${database} has no branch ${name}.`);
    const made = await cli.json(['backup', 'list', database, name, ...at(source)], backups);
    const newest = (made ?? [])
      .filter(({ state }) => state === 'success')
      .toSorted((one, other) => Date.parse(one.completed_at) - Date.parse(other.completed_at))
      .at(-1);
    if (newest === undefined) throw missing(`The branch ${name} of ${database} has no finished backup.`);
    return {
      instance: found.cluster_display_name ?? null,
      asOf: newest.completed_at,
      backup: newest.id,
    };
  },
  async create(cli, { source, name }, { backup: id, instance }) {
    // With --seed-data, the program takes the data of MySQL databases only.
    const size = instance === null ? [] : ['--cluster-size', instance];
    await cli.text(['branch', 'create', source[1] ?? '', name, '--restore', id, ...size, ...at(source)]);
  },
  async list(cli, source) {
    const found = await branchesOf(cli, source);
    return found.map(({ id, name, ready, production }) => ({
      id,
      name,
      state: ready ? 'ready' : 'creating',
      asOf: null,
      doubt: production ? 'it is a production branch' : null,
    }));
  },
  // Roles belong to a branch, and passwords are shown once.
  async address(cli, { name }, { source }) {
    const asOwner = ['--inherited-roles', 'postgres', ...at(source)];
    const made = await cli.json(['role', 'create', source[1] ?? '', name, 'safemigrate', ...asOwner], role);
    const { hostname, port } = new URL(`postgres://${made.access_host_url}`);
    return { host: hostname, port: Number(port || 5432), user: made.username, password: made.password };
  },
  async destroy(cli, { name }, source) {
    await cli.text(['branch', 'delete', source[1] ?? '', name, '--force', ...at(source)]);
  },
};

async function branchesOf(cli: ServiceCli, source: Source): Promise<z.infer<typeof branch>[]> {
  const all: z.infer<typeof branch>[] = [];
  for (let page = 1; ; page++) {
    const which = ['--page', String(page), '--per-page', String(PAGE), ...at(source)];
    const found = (await cli.json(['branch', 'list', source[1] ?? '', ...which], branches)) ?? [];
    all.push(...found);
    if (found.length < PAGE) return all;
  }
}

function missing(message: string): SafemigrateError {
  return new SafemigrateError('CLONE', message, {
    hint: 'SAFEMIGRATE_CLONE_OF organization/database/branch names another one. The target was not touched.',
  });
}
