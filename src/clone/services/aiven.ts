import * as z from 'zod/mini';
import type { CloneService, ServiceClone, Source, SourceFacts } from './clone-service.ts';
import { bytesOfGb, optionIf } from './service-cli.ts';

const service = z.object({
  service_name: z.string(),
  service_type: z.string(),
  state: z.string(),
  plan: z.string(),
  cloud_name: z.string(),
  disk_space_mb: z.optional(z.nullable(z.number())),
  project_vpc_id: z.optional(z.nullable(z.string())),
});
const connection = z.object({
  service_uri_params: z.object({
    host: z.string(),
    port: z.union([z.string(), z.number()]),
    user: z.string(),
    password: z.string(),
  }),
});
const backups = z.array(z.object({ backup_time: z.string() }));

interface AivenSource extends SourceFacts {
  readonly described: z.infer<typeof service>;
}

function call([project = '']: Source, verb: string, ...words: string[]): string[] {
  return ['service', verb, ...words, '--project', project];
}

/** Aiven: a service that is forked from the newest backup. */
export const aiven: CloneService<AivenSource> = {
  title: 'Aiven',
  program: 'avn',
  login: 'avn user login',
  sourceForm: 'project/service',
  strategy: 'backup',
  readyMs: 20 * 60_000,
  readsLazily: false,
  cost: "a service of the source's plan, while the run lasts",
  billing: { machine: 'hours of the plan', storage: "hours of a disk beyond the plan's" },
  rights: "the project's services: read, create, delete",
  signs: { host: /\.aivencloud\.com$/, role: 'avnadmin' },
  sourceIn: () => null,
  async inspect(cli, source) {
    const [, name = ''] = source;
    const described = await cli.json(call(source, 'get', name, '--json'), service);
    const times = await cli.json(call(source, 'backup-list', name, '--json'), backups);
    const newest = times
      .map(({ backup_time }) => backup_time)
      .sort()
      .at(-1);
    const { plan, disk_space_mb: disk } = described;
    return { described, instance: plan, storageBytes: bytesOfGb(disk && disk / 1024), asOf: newest ?? null };
  },
  async create(cli, { source, name }, { described }) {
    const {
      service_type: type,
      plan,
      cloud_name: cloud,
      disk_space_mb: disk,
      project_vpc_id: vpc,
    } = described;
    const as = ['--service-type', type, '--plan', plan, '--cloud', cloud];
    await cli.text([
      ...call(source, 'create', name, ...as, '--service-to-fork-from', described.service_name),
      // A plan's usual disk may be too small for the data.
      ...optionIf('--disk-space-gib', disk ? String(Math.ceil(disk / 1024)) : null),
      ...(vpc ? ['--project-vpc-id', vpc] : ['--no-project-vpc']),
    ]);
  },
  async list(cli, source) {
    const found = await cli.json(call(source, 'list', '--json'), z.array(service));
    return found.map((each) => ({
      id: each.service_name,
      name: each.service_name,
      state: stateOf(each.state),
      asOf: null,
      doubt: each.service_type === 'pg' ? null : `it is a service of the type ${each.service_type}`,
    }));
  },
  // Only the administrator's password is shown.
  async address(cli, { name }, { source }) {
    const { service_uri_params: told } = await cli.json(call(source, 'get', name, '--json'), connection);
    return { host: told.host, port: Number(told.port), user: told.user, password: told.password };
  },
  async destroy(cli, { name }, source) {
    await cli.text(call(source, 'terminate', name, '--force'));
  },
};

function stateOf(state: string): ServiceClone['state'] {
  if (state === 'RUNNING') return 'ready';
  return state === 'POWEROFF' ? 'failed' : 'creating';
}
