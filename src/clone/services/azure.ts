import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import { missingAzureRights } from './azure-rights.ts';
import type { CloneService, ServiceCli, ServiceClone, Source, SourceFacts } from './clone-service.ts';
import { bytesOfGb, notFound } from './service-cli.ts';

const server = z.object({
  id: z.string(),
  name: z.string(),
  resourceGroup: z.string(),
  state: z.string(),
  fullyQualifiedDomainName: z.optional(z.nullable(z.string())),
  sku: z.optional(z.nullable(z.object({ name: z.string() }))),
  storage: z.optional(z.nullable(z.object({ storageSizeGb: z.optional(z.nullable(z.number())) }))),
  network: z.optional(z.nullable(z.object({ publicNetworkAccess: z.optional(z.nullable(z.string())) }))),
  replicationRole: z.optional(z.nullable(z.string())),
});
type Server = z.infer<typeof server>;
const rules = z.array(z.object({ name: z.string(), startIpAddress: z.string(), endIpAddress: z.string() }));

interface AzureSource extends SourceFacts {
  readonly described: Server;
}

function calls(source: Source, ...words: string[]): string[] {
  const subscription = source.length > 1 ? ['--subscription', source[0] ?? ''] : [];
  return ['postgres', 'flexible-server', ...words, ...subscription, '--output', 'json'];
}

/** The names of servers are unique, so that the resource group follows from the name. */
async function serverNamed(cli: ServiceCli, source: Source, name: string): Promise<Server> {
  const servers = await cli.json(calls(source, 'list'), z.array(server));
  const found = servers.find((each) => each.name === name);
  if (found === undefined) throw notFound(azure, `server ${name} in the subscription`);
  return found;
}

/** Azure Database for PostgreSQL, Flexible Server: a server that is restored to the present. */
export const azure: CloneService<AzureSource> = {
  title: 'Azure Flexible Server',
  program: 'az',
  login: 'az login',
  sourceForm: '[subscription/]server',
  strategy: 'restore',
  readyMs: 15 * 60_000,
  readsLazily: false,
  cost: "a server of the source's size without its standby, with all of its storage, while the run lasts",
  billing: { machine: 'hours of the size', storage: 'GB-months of the storage' },
  rights: 'Contributor of the resource group, or servers and firewall rules: read, create, delete',
  signs: { host: /^([^.]+)\.postgres\.database\.azure\.com$/, role: 'azure_pg_admin' },
  sourceIn: ([, name]) => name ?? null,
  async inspect(cli, source) {
    const described = await serverNamed(cli, source, source.at(-1) ?? '');
    const { sku, storage, resourceGroup } = described;
    const missing = await missingAzureRights(cli, described.id, { hasRules: isPublic(described) });
    if (missing.length > 0)
      throw new SafemigrateError(
        'CLONE',
        `The login of az lacks rights in the resource group ${resourceGroup}: ${missing.join(', ')}.`,
        { hint: 'The role Contributor has them. The target was not touched.' },
      );
    const storageBytes = bytesOfGb(storage?.storageSizeGb);
    return { described, instance: sku?.name ?? null, storageBytes, asOf: new Date().toISOString() };
  },
  async create(cli, { source, name }, { described, asOf }) {
    const { id, resourceGroup } = described;
    const from = ['--source-server', id, '--restore-time', asOf ?? ''];
    const of = ['--resource-group', resourceGroup, '--name', name, ...from, '--yes', '--no-wait'];
    await cli.text(calls(source, 'restore', ...of));
  },
  async list(cli, source) {
    const servers = await cli.json(calls(source, 'list'), z.array(server));
    return servers.map((each) => ({
      id: each.id,
      name: each.name,
      state: stateOf(each.state),
      asOf: null,
      doubt: /replica/i.test(each.replicationRole ?? '') ? 'it is a replica' : null,
      ...(each.fullyQualifiedDomainName && { host: each.fullyQualifiedDomainName }),
    }));
  },
  // Roles and passwords are the source's. Its firewall rules are not: the clone gets the same ones.
  async address(cli, clone, { source }) {
    const described = await serverNamed(cli, source, source.at(-1) ?? '');
    if (isPublic(described)) {
      const { resourceGroup, name } = described;
      const at = (one: string) => ['--resource-group', resourceGroup, '--server-name', one];
      const own = await cli.json(calls(source, 'firewall-rule', 'list', ...at(name)), rules);
      for (const rule of own) {
        const range = ['--start-ip-address', rule.startIpAddress, '--end-ip-address', rule.endIpAddress];
        const call = ['firewall-rule', 'create', ...at(clone.name), '--name', rule.name, ...range];
        await cli.text(calls(source, ...call));
      }
    }
    return clone;
  },
  async destroy(cli, { name }, source) {
    const { resourceGroup } = await serverNamed(cli, source, name);
    await cli.text(calls(source, 'delete', '--resource-group', resourceGroup, '--name', name, '--yes'));
  },
};

/** Its firewall rules decide who reaches it. */
function isPublic({ network }: Server): boolean {
  return network?.publicNetworkAccess !== 'Disabled';
}

function stateOf(state: string): ServiceClone['state'] {
  if (state === 'Ready') return 'ready';
  if (state === 'Dropping') return 'deleting';
  return /^(Disabled|Inaccessible|Stopp)/.test(state) ? 'failed' : 'creating';
}
