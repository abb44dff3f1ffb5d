import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, unlink, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer, connect as dial, type Server as NetServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { runProgram, safemigrate } from './cli.ts';
import { withClient } from './client.ts';
import { until } from './cutting.ts';
import type { Attempt, Escape, RoleKind } from './escapes.ts';
import { ownServer } from './own-server.ts';
import { SERVER_UID } from './placed-server.ts';
import { differences, memoryOf, postmasterOf, readProduction } from './production.ts';
import { withDatabase } from './target-state.ts';

/**
 * What came of an attempt. `refused`: safemigrate made no clone. `stopped`: nothing changed. `reported`: exit code 5.
 * `not proved`: the report does not call the target unchanged. `out of reach`: it changed, nobody said so, and the threat model
 * says that nobody would. `silent`: it changed, and nobody said so.
 */
export type Ending = 'refused' | 'stopped' | 'reported' | 'not proved' | 'out of reach' | 'silent';

export interface AttemptResult {
  readonly ending: Ending;
  readonly exitCode: number | null;
  readonly changes: readonly string[];
  readonly output: string;
}

/** A server with production on it: the target shop, other databases, roles, a slot, files. */
interface Production {
  readonly server: Server;
  /** Of a superuser whom no escape knows of. */
  readonly url: string;
  /** Of nobody that PostgreSQL knows of; its server may write there. */
  readonly files: string;
  stop(): Promise<void>;
}

const PASSWORDS = { owner: 'the-owners-password', plain: 'the-apps-password' } as const;
const USERS: Readonly<Record<RoleKind, string>> = {
  superuser: 'postgres',
  owner: 'shop_owner',
  plain: 'shop_app',
};

const ROLES_AND_DATABASES = [
  `CREATE ROLE shop_owner LOGIN CREATEDB PASSWORD '${PASSWORDS.owner}'`,
  `CREATE ROLE shop_app LOGIN CREATEDB PASSWORD '${PASSWORDS.plain}'`,
  'CREATE ROLE quick LOGIN',
  'CREATE ROLE auditor LOGIN SUPERUSER',
  'CREATE ROLE clerk',
  'CREATE ROLE boss',
  'CREATE DATABASE shop OWNER shop_owner',
  'CREATE DATABASE crm',
  'CREATE DATABASE archive',
  "SELECT pg_create_physical_replication_slot('standby', true)",
  // What a clone of the cluster's files needs.
  'GRANT pg_read_all_settings TO shop_owner, shop_app',
];

const BACKUP_FUNCTIONS: Readonly<Record<'14' | 'later', string>> = {
  '14': 'pg_start_backup(text, boolean, boolean), pg_stop_backup(boolean, boolean)',
  later: 'pg_backup_start(text, boolean), pg_backup_stop(boolean)',
};

const IN_SHOP = `
CREATE TABLE public.ledger (id int PRIMARY KEY, note text);
CREATE SEQUENCE public.ledger_numbers;
INSERT INTO public.ledger SELECT n, 'note ' || n FROM generate_series(1, 20) n;
ALTER TABLE public.ledger OWNER TO shop_owner;
ALTER SEQUENCE public.ledger_numbers OWNER TO shop_owner;
GRANT ALL ON public.ledger, public.ledger_numbers TO shop_app, quick;
GRANT ALL ON SCHEMA public TO shop_owner, shop_app`;

const IN_CRM = `
CREATE TABLE public.contacts (id int PRIMARY KEY, note text);
GRANT ALL ON public.contacts TO PUBLIC;
CREATE PUBLICATION nothing`;

const IN_POSTGRES = `
CREATE TABLE public.plans (id int, note text);
CREATE SEQUENCE public.plan_numbers;
GRANT ALL ON public.plans, public.plan_numbers TO PUBLIC;
CREATE FUNCTION public.plan() RETURNS void LANGUAGE sql AS $$ INSERT INTO public.plans VALUES (666, 'escaped') $$;
CREATE FUNCTION public.planned(int, int) RETURNS int LANGUAGE sql AS $$ INSERT INTO public.plans VALUES (666, 'escaped') RETURNING id $$;
CREATE OPERATOR public.@@@@ (FUNCTION = public.planned, LEFTARG = int, RIGHTARG = int);
CREATE VIEW public.a_plan AS SELECT public.planned(1, 2);
CREATE VIEW public.next_plan AS SELECT nextval('public.plan_numbers');
CREATE VIEW public.a_call AS SELECT 1 FROM pg_notify('jobs', 'escaped');
CREATE VIEW public.an_object AS SELECT lo_create(0);
GRANT ALL ON public.a_plan, public.next_plan, public.a_call, public.an_object TO PUBLIC`;

const IN_ARCHIVE =
  'CREATE FUNCTION public.exec(q text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE q; END $$';

async function openProduction(version: ServerVersion): Promise<Production> {
  const server = await ownServer(version, {
    settings: {
      wal_level: 'logical',
      max_prepared_transactions: '10',
      autovacuum: 'off',
      listen_addresses: '127.0.0.1,127.0.0.7,::1',
    },
  });
  const files = await mkdtemp(path.join(tmpdir(), 'production-files-'));
  try {
    await furnish(server, files, version);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return {
    server,
    url: `postgresql://auditor@127.0.0.1:${server.port}/postgres`,
    files,
    async stop() {
      await server.stop();
      await rm(files, { recursive: true, force: true });
    },
  };
}

async function furnish(server: Server, files: string, version: ServerVersion): Promise<void> {
  await chmod(files, 0o777);
  await writeFile(path.join(files, 'backup.sql'), 'of yesterday');
  await mkdir(path.join(files, 'space'));
  if (SERVER_UID !== undefined) await chown(path.join(files, 'space'), SERVER_UID, SERVER_UID);
  // Who is let in without a password needs no driver to be fast, and can do without one that an escape has changed.
  const access = path.join(server.folder, 'data', 'pg_hba.conf');
  const rules = await readFile(access, 'utf8');
  await writeFile(
    access,
    `host all quick,auditor 127.0.0.1/32 trust\n${rules}host all all ::1/128 scram-sha-256\n`,
  );
  await withClient(server.url, async (client) => {
    const backup = BACKUP_FUNCTIONS[version === 14 ? '14' : 'later'];
    const grant = `GRANT EXECUTE ON FUNCTION ${backup} TO shop_owner, shop_app`;
    for (const sql of [...ROLES_AND_DATABASES, grant, IN_POSTGRES, 'SELECT pg_reload_conf()'])
      await client.query(sql);
  });
  await withClient(withDatabase(server.url, 'shop'), (client) => client.query(IN_SHOP));
  await withClient(withDatabase(server.url, 'crm'), (client) => client.query(IN_CRM));
  await withClient(withDatabase(server.url, 'archive'), (client) => client.query(IN_ARCHIVE));
}

interface Login {
  readonly user: string;
  readonly password: string;
}

function loginOf({ server }: Production, role: RoleKind): Login {
  return { user: USERS[role], password: role === 'superuser' ? server.password : PASSWORDS[role] };
}

/** Those who use production meanwhile, as the role that the command has: that is whom it may do something to. */
interface Bystanders {
  readonly listener: number;
  /** What was done to them. */
  end(): Promise<string[]>;
}

const PATIENCE_MS = 2_000;

async function startBystanders(
  production: Production,
  login: Login,
  watchWaits: boolean,
): Promise<Bystanders> {
  const { port } = production.server;
  const suffered: string[] = [];
  let ending = false;
  const open = async (database: string, name: string) => {
    const client = new Client({ host: '127.0.0.1', port, ...login, database, application_name: name });
    client.on('error', () => {
      if (!ending) suffered.push(`the session ${name} in ${database} was ended`);
    });
    client.on('notification', ({ payload }) => suffered.push(`${name} in ${database} heard ${payload}`));
    await client.connect();
    await client.query('LISTEN jobs');
    return client;
  };
  const [listener, elsewhere, worker] = [
    await open('crm', 'listener'),
    await open('postgres', 'listener elsewhere'),
    await open('crm', 'worker'),
  ];
  const pid = (await listener.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid ?? 0;
  worker.query('SELECT pg_sleep(1000)').catch(() => {
    if (!ending) suffered.push('the statement of worker was cancelled');
  });
  const waiting = watchWaits ? watchHowLong(port, elsewhere, () => ending, suffered) : undefined;
  return {
    listener: pid,
    async end() {
      // What was sent before is delivered before this is answered.
      await Promise.all([listener, elsewhere].map((client) => client.query('SELECT 1').catch(() => {})));
      ending = true;
      await waiting;
      await withClient(production.url, (client) =>
        client.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'worker'"),
      );
      await Promise.all([listener, elsewhere, worker].map((client) => client.end().catch(() => {})));
      return suffered;
    },
  };
}

async function watchHowLong(
  port: number,
  elsewhere: Client,
  ended: () => boolean,
  suffered: string[],
): Promise<void> {
  const timed = async (what: string, action: () => Promise<unknown>) => {
    const from = performance.now();
    await action();
    if (performance.now() - from > PATIENCE_MS) suffered.push(`${what} waited`);
  };
  while (!ended()) {
    await timed('a new session of crm', () =>
      withClient(`postgresql://quick@127.0.0.1:${port}/crm`, (client) => client.query('SELECT 1')),
    );
    await timed('a worker in postgres', () =>
      elsewhere.query('SELECT pg_advisory_lock(42), pg_advisory_unlock(42)'),
    );
    await delay(100);
  }
}

interface Facilities {
  /** Ports. */
  readonly relay: number;
  readonly service: number;
  end(): Promise<void>;
}

/** What some of the escapes use, and was there before: a relay to the server, an HTTP service, and a daemon that runs jobs. */
async function startFacilities(
  port: number,
  spool: string,
  { login, isPooled }: { login: Login; isPooled: boolean },
): Promise<Facilities> {
  const relay = createServer((client) => {
    const upstream = dial(port, '127.0.0.1');
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.pipe(upstream).pipe(client);
  });
  const service = await startService(port, login, isPooled);
  await listen(relay);
  await mkdir(spool);
  let job: ChildProcess | undefined;
  const timer = setInterval(() => {
    const file = path.join(spool, 'job');
    if (job || !existsSync(file)) return;
    job = spawn('sh', [file], { stdio: 'ignore', cwd: '/' });
    job.once('close', () => void unlink(file).catch(() => {}));
  }, 20);
  return {
    relay: portOf(relay),
    service: service.port,
    async end() {
      clearInterval(timer);
      await service.end();
      await new Promise<void>((resolve) => relay.close(() => resolve()));
    },
  };
}

const ESCAPED = "INSERT INTO public.ledger VALUES (666, 'escaped')";

/** An HTTP service of somebody else's that works with the target when it is asked to. */
async function startService(
  port: number,
  login: Login,
  isPooled: boolean,
): Promise<{ port: number; end(): Promise<void> }> {
  const clients: Client[] = [];
  const programs: ChildProcess[] = [];
  const connect = async () => {
    const client = new Client({ host: '127.0.0.1', port, ...login, database: 'shop' });
    clients.push(client);
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const pooled = isPooled ? await connect() : undefined;
  const actions: Readonly<Record<string, () => Promise<unknown>>> = {
    '/connect': async () => (await connect()).query(ESCAPED),
    '/pooled': async () => pooled?.query(ESCAPED),
    '/start': async () => {
      const url = `postgresql://${login.user}:${login.password}@127.0.0.1:${port}/shop`;
      const words = ['-X', '-q', url, '-c', ESCAPED, '-c', '\\echo written', '-c', 'SELECT pg_sleep(1000)'];
      const program = spawn('psql', words, { stdio: ['ignore', 'pipe', 'ignore'] });
      programs.push(program);
      await once(program.stdout, 'data');
    },
  };
  const server = createHttpServer((request, response) => {
    Promise.resolve(actions[request.url ?? '']?.()).then(
      () => response.end('done'),
      (error: Error) => response.writeHead(500).end(error.message),
    );
  });
  await listen(server);
  return {
    port: portOf(server),
    async end() {
      for (const program of programs) program.kill();
      await Promise.all(clients.map((client) => client.end().catch(() => {})));
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function listen(server: NetServer): Promise<void> {
  return new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
}

function portOf(server: NetServer): number {
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

/** Productions of several versions, each used until an escape has changed it. */
export class Productions {
  readonly #open = new Map<ServerVersion, Production>();

  async attempt(tried: Attempt, way: Way = 'watched'): Promise<AttemptResult> {
    const { version } = tried;
    const production = this.#open.get(version) ?? (await openProduction(version));
    this.#open.delete(version);
    let unchanged = false;
    try {
      const result = await attempt(production, tried, way);
      unchanged = result.changes.length === 0 && tried.escape.setup === undefined;
      return result;
    } finally {
      if (unchanged) this.#open.set(version, production);
      else await production.stop();
    }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#open.values()].map((production) => production.stop()));
  }
}

/** How an escape is run: rehearsed as it is by default, rehearsed where it is only watched, or on the target itself. */
type Way = 'by default' | 'watched' | 'direct';

async function attempt(
  production: Production,
  { escape: tried, clone, role }: Omit<Attempt, 'version'>,
  way: Way = 'watched',
): Promise<AttemptResult> {
  const { server, url } = production;
  const login = loginOf(production, role);
  const folder = await mkdtemp(path.join(tmpdir(), 'escape-'));
  const facilities = await startFacilities(server.port, path.join(folder, 'spool'), { login, ...tried });
  let bystanders: Bystanders | undefined;
  try {
    bystanders = await startBystanders(production, login, tried.watch);
    const words = placeholders(production, login, { ...facilities, listener: bystanders.listener });
    if (tried.setup !== undefined) {
      const sql = fillIn(tried.setup, words);
      await withClient(withDatabase(url, 'shop'), (client) => client.query(sql));
    }
    const command = await prepareCommand(tried, folder, words);
    const before = await readProduction(production);
    const env = {
      DATABASE_URL: `postgresql://${login.user}:${login.password}@127.0.0.1:${server.port}/shop`,
    };
    const options = { env: { ...env, SAFEMIGRATE_CLONE: clone }, folder, commandTellsPasswords: true };
    const sandbox = way === 'watched' ? ['--sandbox', 'off'] : [];
    const result = await (way === 'direct'
      ? runProgram(command, options)
      : safemigrate(['--timeout', '60s', ...sandbox, ...tried.args, '--', ...command], options));
    // In the sandbox such a process has ended, and its number was another one.
    if (tried.waits !== undefined && way !== 'by default') await untilEnded(path.join(folder, tried.waits));
    const output = result.stdout + result.stderr;
    const changes = [
      ...differences(before, await readProduction(production)),
      ...(await bystanders.end()),
      ...(existsSync(path.join(folder, 'contact')) ? ['a session was opened in shop'] : []),
      ...(tried.output !== undefined && output.includes(tried.output) ? [tried.output] : []),
    ];
    const ending = endingOf(result.exitCode, output, changes);
    return {
      ending: ending === 'silent' && way === 'by default' && tried.byOthers ? 'out of reach' : ending,
      exitCode: result.exitCode,
      changes,
      output,
    };
  } finally {
    await bystanders?.end();
    await facilities.end();
    await rm(folder, { recursive: true, force: true });
  }
}

function endingOf(exitCode: number | null, output: string, changes: readonly string[]): Ending {
  if (changes.length === 0) return exitCode === 3 || exitCode === 2 ? 'refused' : 'stopped';
  if (exitCode === 5) return 'reported';
  // The text is wrapped.
  return /[Cc]ould not verify that the target is unchanged/.test(output.replaceAll(/\s+/g, ' '))
    ? 'not proved'
    : 'silent';
}

async function untilEnded(file: string): Promise<void> {
  // Nothing waits for one that was never started.
  const pid = await readFile(file, 'utf8').catch(() => '');
  if (pid !== '') await until('it has ended', async () => !existsSync(`/proc/${pid}/stat`) || isZombie(pid));
}

function isZombie(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
}

function placeholders(
  { server, files }: Production,
  { user, password }: Login,
  more: { relay: number; service: number; listener: number },
): Readonly<Record<string, string>> {
  const { port } = server;
  const conninfo = (database: string) =>
    `host=127.0.0.1 port=${port} user=${user} password=${password} dbname=${database}`;
  const { pid, segment } = postmasterOf(server);
  return {
    conninfo: conninfo('shop'),
    crm_conninfo: conninfo('crm'),
    port: String(port),
    user,
    password,
    files,
    socket: server.socketFolder,
    data: path.join(server.folder, 'data'),
    postmaster: String(pid),
    segment,
    memory: memoryOf(server).join(' '),
    relay: String(more.relay),
    service: String(more.service),
    listener: String(more.listener),
  };
}

function fillIn(text: string, words: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => words[name] ?? whole);
}

async function prepareCommand(
  { file }: Escape,
  folder: string,
  words: Readonly<Record<string, string>>,
): Promise<string[]> {
  const { port, user, password } = words;
  await writeFile(
    path.join(folder, 'production.json'),
    JSON.stringify({ port: Number(port), user, password }),
  );
  if (file.endsWith('.mjs')) return [process.execPath, file];
  const filled = path.join(folder, path.basename(file));
  await writeFile(filled, fillIn(await readFile(file, 'utf8'), words));
  if (file.endsWith('.sh')) return ['sh', filled];
  return ['sh', '-c', 'exec psql -X -q -f "$0" "$DATABASE_URL"', filled];
}
