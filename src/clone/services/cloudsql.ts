import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceClone } from './clone-service.ts';
import { inProject } from './gcloud.ts';
import { bytesOfGb } from './service-cli.ts';

const instance = z.object({
  name: z.string(),
  state: z.string(),
  createTime: z.optional(z.string()),
  masterInstanceName: z.optional(z.string()),
  ipAddresses: z.optional(z.array(z.object({ ipAddress: z.string(), type: z.string() }))),
  settings: z.optional(
    z.object({
      tier: z.optional(z.string()),
      // As 64-bit numbers are written in Google's JSON.
      dataDiskSizeGb: z.optional(z.union([z.string(), z.number()])),
      deletionProtectionEnabled: z.optional(z.boolean()),
    }),
  ),
});

/** Cloud SQL: an instance that is cloned from the current state. */
export const cloudsql: CloneService = {
  title: 'Cloud SQL',
  program: 'gcloud',
  login: 'gcloud auth login',
  sourceForm: 'project/instance',
  strategy: 'copy-on-write',
  readyMs: 8 * 60_000,
  readsLazily: false,
  cost: "an instance of the source's tier with all of its storage, while the run lasts",
  billing: { machine: 'hours of the tier', storage: 'GB-months of the disk' },
  rights: 'roles/cloudsql.editor, cloudsql.instances.delete',
  // Cloud SQL is reached by an address or a local proxy, which have no name of it.
  signs: { host: /\.sql\.goog\.?$/, role: 'cloudsqlsuperuser' },
  sourceIn: () => null,
  async inspect(cli, source) {
    const [, name = ''] = source;
    const found = await cli.json(['sql', 'instances', 'describe', name, ...inProject(source)], instance);
    const { tier = null, dataDiskSizeGb } = found.settings ?? {};
    if (found.state === 'RUNNABLE')
      return { instance: tier, storageBytes: bytesOfGb(dataDiskSizeGb), asOf: null };
    throw new SafemigrateError(
      'CLONE',
      `The instance ${name} cannot be cloned: its state is ${found.state}.`,
      {
        hint: 'The target was not touched.',
      },
    );
  },
  async create(cli, { source, name }) {
    // No zone is named, with which Cloud SQL would copy all data.
    await cli.text(['sql', 'instances', 'clone', source[1] ?? '', name, '--async', ...inProject(source)]);
  },
  async list(cli, source) {
    const found = await cli.json(['sql', 'instances', 'list', ...inProject(source)], z.array(instance));
    return found.map((each) => {
      const address =
        each.ipAddresses?.find(({ type }) => type === 'PRIMARY') ??
        each.ipAddresses?.find(({ type }) => type === 'PRIVATE');
      return {
        id: each.name,
        name: each.name,
        state: stateOf(each.state),
        asOf: each.createTime ?? null,
        doubt: each.masterInstanceName === undefined ? null : 'it is a replica',
        ...(address && { host: address.ipAddress }),
      };
    });
  },
  // Roles and passwords are the source's.
  address: async (_, clone) => ({ ...clone, port: 5432 }),
  async destroy(cli, { name }, source) {
    const { settings } = await cli.json(
      ['sql', 'instances', 'describe', name, ...inProject(source)],
      instance,
    );
    if (settings?.deletionProtectionEnabled)
      // The clone has it from its source.
      await cli.text(['sql', 'instances', 'patch', name, '--no-deletion-protection', ...inProject(source)]);
    await cli.text(['sql', 'instances', 'delete', name, '--async', ...inProject(source)]);
  },
};

function stateOf(state: string): ServiceClone['state'] {
  if (state === 'RUNNABLE') return 'ready';
  if (state === 'PENDING_DELETE') return 'deleting';
  return state === 'FAILED' || state === 'SUSPENDED' ? 'failed' : 'creating';
}
