import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceClone } from './clone-service.ts';
import { bytesOfGb, notFound } from './service-cli.ts';

const database = z.object({
  id: z.string(),
  name: z.string(),
  status: z.string(),
  size: z.optional(z.string()),
  storage_size_mib: z.optional(z.number()),
  // doctl leaves out empty fields: a new cluster has no user yet, and some engines show no password.
  connection: z.optional(
    z.nullable(
      z.object({
        host: z.optional(z.string()),
        port: z.optional(z.number()),
        user: z.optional(z.string()),
        password: z.optional(z.string()),
      }),
    ),
  ),
});
const backups = z.array(z.object({ created_at: z.string() }));
const JSON_OUTPUT = ['--output', 'json'];

/** DigitalOcean: a cluster that is forked from the newest backup. */
export const digitalocean: CloneService = {
  title: 'DigitalOcean',
  program: 'doctl',
  login: 'doctl auth init',
  sourceForm: 'cluster-id',
  strategy: 'backup',
  readyMs: 15 * 60_000,
  readsLazily: false,
  cost: "a cluster of the source's size, while the run lasts",
  billing: { machine: 'hours of the size', storage: 'GB-months of the storage' },
  rights: 'databases: read, create, delete',
  signs: { host: /\.db\.ondigitalocean\.com$/, role: 'doadmin' },
  sourceIn: () => null,
  async inspect(cli, [id = '']) {
    const [found] = await cli.json(['databases', 'get', id, ...JSON_OUTPUT], z.array(database));
    if (found === undefined)
      throw new SafemigrateError('CLONE', `DigitalOcean has no database cluster ${id}.`, {
        hint: '`doctl databases list` shows their ids. The target was not touched.',
      });
    const times = await cli.json(['databases', 'backups', id, ...JSON_OUTPUT], backups);
    const newest = times
      .map(({ created_at }) => created_at)
      .sort()
      .at(-1);
    const { size = null, storage_size_mib: disk } = found;
    return { instance: size, storageBytes: bytesOfGb(disk && disk / 1024), asOf: newest ?? null };
  },
  async create(cli, { source: [id = ''], name }) {
    await cli.text(['databases', 'fork', name, '--restore-from-cluster-id', id, ...JSON_OUTPUT]);
  },
  async list(cli) {
    const found = await cli.json(['databases', 'list', ...JSON_OUTPUT], z.array(database));
    return found.map(({ id, name, status }) => ({
      id,
      name,
      state: stateOf(status),
      asOf: null,
      doubt: null,
    }));
  },
  // A fork has another administrator. Other roles keep their names, and their passwords are not known to be the same.
  async address(cli, { id, name }) {
    const [found] = await cli.json(['databases', 'get', id, ...JSON_OUTPUT], z.array(database));
    const { host, port, user, password } = found?.connection ?? {};
    if (!host || !port || !user || !password) throw notFound(digitalocean, `login to ${name}`);
    return { host, port, user, password };
  },
  async destroy(cli, { id }) {
    await cli.text(['databases', 'delete', id, '--force']);
  },
};

function stateOf(status: string): ServiceClone['state'] {
  if (status === 'online') return 'ready';
  return status === 'creating' || status === 'forking' ? 'creating' : 'failed';
}
