import { randomBytes } from 'node:crypto';
import * as z from 'zod/mini';
import type { CloneService, ServiceCli, ServiceClone } from './clone-service.ts';
import { notFound } from './service-cli.ts';

const services = z.array(
  z.object({
    service_id: z.string(),
    name: z.string(),
    status: z.string(),
    created: z.string(),
    forked_from: z.optional(z.nullable(z.object({ service_id: z.optional(z.string()) }))),
    endpoint: z.optional(
      z.nullable(z.object({ host: z.optional(z.string()), port: z.optional(z.number()) })),
    ),
    resources: z.optional(
      z.nullable(
        z.array(
          z.object({
            spec: z.optional(
              z.object({ cpu_millis: z.optional(z.number()), memory_gbs: z.optional(z.number()) }),
            ),
          }),
        ),
      ),
    ),
  }),
);

/** The only role whose password a fork does not have from its source. */
const ADMINISTRATOR = 'tsdbadmin';
/** Otherwise passwords would be left in the user's keyring or ~/.pgpass. */
const NO_STORAGE = ['--password-storage', 'none'];

function servicesOf(cli: ServiceCli) {
  return cli.json(['service', 'list', '--output', 'json'], services);
}

/** Tiger Cloud: a service that is forked from the current state. */
export const tiger: CloneService = {
  title: 'Tiger Cloud',
  program: 'tiger',
  login: 'tiger auth login',
  sourceForm: 'service-id',
  strategy: 'copy-on-write',
  readyMs: 10 * 60_000,
  readsLazily: false,
  cost: "a service of the source's CPU and memory without replicas, while the run lasts",
  billing: { machine: 'hours of the CPU and memory', storage: 'GB-hours of the storage' },
  rights: "the project's services: read, fork, delete",
  signs: { host: /^([^.]+)\.[^.]+\.tsdb\.cloud\.timescale\.com$/, role: ADMINISTRATOR },
  sourceIn: ([, id]) => id ?? null,
  async inspect(cli, [id = '']) {
    const found = (await servicesOf(cli)).find(({ service_id }) => service_id === id);
    if (found === undefined) throw notFound(tiger, `service ${id} in the project of the login`);
    const { cpu_millis: cpu, memory_gbs: memory } = found.resources?.[0]?.spec ?? {};
    const machine = cpu === undefined || memory === undefined ? null : `${cpu / 1000} CPU, ${memory} GB`;
    return { instance: machine, asOf: null };
  },
  async create(cli, { source: [id = ''], name }) {
    const now = ['service', 'fork', id, '--now', '--name', name];
    await cli.text([...now, '--no-wait', '--no-set-default', ...NO_STORAGE, '--output', 'json']);
  },
  async list(cli, [source]) {
    const found = await servicesOf(cli);
    return found.map(({ service_id, name, status, created, forked_from, endpoint }) => ({
      id: service_id,
      name,
      state: stateOf(status),
      asOf: created,
      doubt: forked_from?.service_id === source ? null : 'it is not a fork of the source',
      ...(endpoint?.host && { host: endpoint.host }),
      ...(endpoint?.port && { port: endpoint.port }),
    }));
  },
  async address(cli, clone, { user }) {
    if (user !== ADMINISTRATOR) return clone;
    const password = randomBytes(24).toString('base64url');
    const env = { TIGER_NEW_PASSWORD: password };
    await cli.text(['service', 'update-password', clone.id, ...NO_STORAGE], { env });
    return { ...clone, password };
  },
  async destroy(cli, { id }) {
    await cli.text(['service', 'delete', id, '--confirm', '--no-wait']);
  },
};

function stateOf(status: string): ServiceClone['state'] {
  if (status === 'READY') return 'ready';
  if (status === 'DELETING' || status === 'DELETED') return 'deleting';
  return status === 'PAUSED' || status === 'PAUSING' ? 'failed' : 'creating';
}
