import { createHmac, randomBytes } from 'node:crypto';
import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceClone } from './clone-service.ts';

const snapshot = z.object({ dataStateAt: z.optional(z.string()), branch: z.optional(z.string()) });
const clones = z.nullable(
  z.array(
    z.object({
      id: z.string(),
      snapshot: z.optional(z.nullable(snapshot)),
      protected: z.optional(z.boolean()),
      status: z.object({ code: z.string() }),
      db: z.optional(z.nullable(z.object({ host: z.string(), port: z.string() }))),
    }),
  ),
);

const SECRET = randomBytes(16);

/** The password of a clone, which only this process can tell. */
function passwordOf(name: string): string {
  return createHmac('sha256', SECRET).update(name).digest('hex');
}

/** DBLab Engine: a thin clone of its newest snapshot, on a machine of the user. */
export const dblab: CloneService = {
  title: 'DBLab Engine',
  program: 'dblab',
  login: 'dblab init',
  sourceForm: 'branch',
  strategy: 'copy-on-write',
  readyMs: 10_000,
  readsLazily: false,
  cost: 'only the pages that the command changes, on the machine of the engine',
  billing: {},
  rights: 'a token of the engine',
  // Its servers are copies, and never a target.
  signs: {},
  sourceIn: () => null,
  async inspect(cli, [branch = '']) {
    const found = await cli.json(['snapshot', 'list'], z.nullable(z.array(snapshot)));
    const newest = (found ?? [])
      .filter((each) => each.branch === branch)
      .flatMap(({ dataStateAt }) => dataStateAt ?? [])
      .toSorted((one, other) => Date.parse(one) - Date.parse(other))
      .at(-1);
    if (newest !== undefined) return { instance: null, asOf: newest };
    throw new SafemigrateError('CLONE', `The engine has no snapshot of the branch ${branch}.`, {
      hint: '`dblab snapshot list` shows all. The target was not touched.',
    });
  },
  async create(cli, { source: [branch = ''], name, user }) {
    // The program takes the password from its arguments only.
    const login = ['--username', user, '--password', passwordOf(name)];
    await cli.text(['clone', 'create', '--id', name, '--branch', branch, ...login, '--async']);
  },
  async list(cli) {
    const found = await cli.json(['clone', 'list'], clones);
    return (found ?? []).map(({ id, status, snapshot, protected: isProtected, db }) => ({
      id,
      name: id,
      state: stateOf(status.code),
      asOf: snapshot?.dataStateAt ?? null,
      doubt: isProtected ? 'it is protected from deletion' : null,
      ...(db && { host: db.host, port: Number(db.port) }),
    }));
  },
  // Clones have no TLS by default, even if the target demands it.
  address: async (_, { name, host, port }) => ({
    ...(host && { host }),
    ...(port && { port }),
    password: passwordOf(name),
    sslmode: 'prefer',
  }),
  async destroy(cli, { id }) {
    // It waits until the clone is gone. Options after an id are not read.
    await cli.text(['clone', 'destroy', id]);
  },
};

function stateOf(code: string): ServiceClone['state'] {
  if (code === 'OK') return 'ready';
  if (code === 'DELETING') return 'deleting';
  return code === 'FATAL' ? 'failed' : 'creating';
}
