/**
 * Runs inside the emulated machine: PostgreSQL on a ZFS of the kernel in the usual layouts, cloned under load by the built program.
 * Prints a line `RESULT {json}` for each layout.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { text } from 'node:stream/consumers';

const PROGRAMS = '/usr/lib/postgresql/15/bin';
const CLI = '/program/dist/cli/main.js';
const FOLDER = '/srv/pg';
const URL = 'postgresql://postgres@127.0.0.1:5432/postgres';
const run = (program, ...words) =>
  execFileSync(program, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const zfs = (...words) => run('zfs', ...words).trim();
const uid = Number(run('id', '-u', 'postgres'));
const asPostgres = (program, ...words) =>
  run('setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', program, ...words);

for (const pool of ['tank', 'other']) {
  writeFileSync(`/var/${pool}`, '');
  truncateSync(`/var/${pool}`, 2 ** 31);
  run('zpool', 'create', '-O', 'compression=lz4', '-O', 'recordsize=16k', '-m', 'none', pool, `/var/${pool}`);
}

let count = 0;
/** Makes a dataset that is mounted in this folder. */
function dataset(folder, pool = 'tank', ...options) {
  count += 1;
  zfs('create', ...options, '-o', `mountpoint=${folder}`, `${pool}/volume ${count}`);
  chownSync(folder, uid, uid);
}
const initdb = (...words) =>
  asPostgres(`${PROGRAMS}/initdb`, '-D', `${FOLDER}/data`, '-A', 'trust', '-N', '-U', 'postgres', ...words);
const outer = () => dataset(FOLDER);
const ownFolder = () => {
  mkdirSync(FOLDER, { recursive: true });
  chownSync(FOLDER, uid, uid);
};

const LAYOUTS = {
  'the data directory is a dataset': () => {
    ownFolder();
    dataset(`${FOLDER}/data`);
    initdb();
  },
  'the data directory is a folder in a dataset': () => {
    outer();
    initdb();
  },
  'WAL is in a dataset of its own': () => {
    outer();
    dataset(`${FOLDER}/wal`);
    initdb('--waldir', `${FOLDER}/wal`);
  },
  'a tablespace is in another pool': () => {
    outer();
    dataset(`${FOLDER}/apart`, 'other');
    initdb();
    return 'apart';
  },
  'the dataset is encrypted': () => {
    writeFileSync('/root/key', 'a key of 32 bytes, for AES-256..');
    dataset(
      FOLDER,
      'tank',
      '-o',
      'encryption=on',
      '-o',
      'keyformat=raw',
      '-o',
      'keylocation=file:///root/key',
    );
    initdb();
  },
};

/** Whose clones are measured at two sizes: user space has no encryption, and the other layouts are measured there. */
const SIZED = ['a tablespace is in another pool', 'the dataset is encrypted'];
const SIZES = { '0.1 GB': 100, '2 GB': 2000 };
const ROUNDS = 2;

const CHECK = `DO $$ BEGIN
  ASSERT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history);
  ASSERT (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history);
  ASSERT (SELECT count(*) FROM pgbench_history) > 0;
END $$`;
const AMCHECK = `CREATE EXTENSION amcheck; SELECT bt_index_check('pgbench_accounts_pkey', true)`;

async function program(args, onStarted = () => {}) {
  const child = spawn('node', [CLI, ...args], {
    env: { PATH: process.env.PATH, HOME: '/root', DATABASE_URL: URL, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onStarted(child);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { stdout, stderr, exitCode: child.exitCode };
}

const psql = (sql) => run('psql', '-qX', '-v', 'ON_ERROR_STOP=1', URL, '-c', sql);

async function rehearse(...command) {
  const { stdout, stderr, exitCode } = await program([
    '--clone',
    'cluster',
    '--format',
    'json',
    '--',
    ...command,
  ]);
  return { stderr, exitCode, report: stdout.startsWith('{') ? JSON.parse(stdout) : undefined };
}

/** Fills a table, and measures at each size how soon a clone is ready. @returns the shortest times in ms */
async function readyBySize(tablespace) {
  psql(`CREATE TABLE wide (id int, wide text) ${tablespace ? `TABLESPACE ${tablespace}` : ''}`);
  // A row takes a page.
  psql('ALTER TABLE wide ALTER wide SET STORAGE PLAIN');
  const ready = {};
  let filled = 0;
  for (const [name, megabytes] of Object.entries(SIZES)) {
    const rows = megabytes * 128;
    psql(
      `INSERT INTO wide SELECT n, repeat(md5(n::text), 250) FROM generate_series(${filled + 1}, ${rows}) n`,
    );
    filled = rows;
    const times = [];
    for (let round = 0; round < ROUNDS; round++) {
      psql('CHECKPOINT');
      run('zpool', 'sync');
      times.push((await rehearse('true')).report.clone.durationMs);
    }
    ready[name] = Math.min(...times);
  }
  return ready;
}

async function trial(name, make) {
  const tablespace = make();
  appendFileSync(
    `${FOLDER}/data/postgresql.conf`,
    "\nshared_buffers = 64MB\nunix_socket_directories = '/tmp'\n",
  );
  asPostgres(`${PROGRAMS}/pg_ctl`, '-D', `${FOLDER}/data`, '-l', `${FOLDER}/log`, '-w', '-t', '300', 'start');
  if (tablespace) psql(`CREATE TABLESPACE apart LOCATION '${FOLDER}/apart'`);
  run(`${PROGRAMS}/pgbench`, '-iq', ...(tablespace ? [`--tablespace=${tablespace}`] : []), URL);
  const before = zfs('list', '-H', '-t', 'all', '-o', 'name');
  const load = spawn(
    `${PROGRAMS}/pgbench`,
    ['-n', '-c', '2', '-T', '7200', '-l', '--log-prefix=/tmp/load', URL],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const loaded = Promise.all([text(load.stdout), text(load.stderr), once(load, 'close')]);
  while (run('psql', '-qXAt', URL, '-c', 'SELECT count(*) > 20 FROM pgbench_history').trim() !== 't');
  const command = [
    'psql',
    '-qX',
    '-v',
    'ON_ERROR_STOP=1',
    '-c',
    CHECK,
    '-c',
    AMCHECK,
    '-c',
    'ALTER TABLE pgbench_tellers ADD note text',
  ];
  const sh = ['sh', '-c', 'exec "$@" "$DATABASE_URL"', 'sh', ...command];
  const { stderr, exitCode, report } = await rehearse(...sh);
  const left = [];
  const same = (when) => {
    const now = zfs('list', '-H', '-t', 'all', '-o', 'name');
    if (now !== before) left.push(`${when}: ${now}`);
  };
  same('after a rehearsal');
  for (const signal of ['SIGINT', 'SIGKILL']) {
    await program(
      [
        '--clone',
        'cluster',
        '--',
        'sh',
        '-c',
        'echo at work; exec psql -qXc "SELECT pg_sleep(600)" "$DATABASE_URL"',
      ],
      (child) => child.stdout.on('data', (data) => String(data).includes('at work') && child.kill(signal)),
    );
    const deadline = Date.now() + 60_000;
    while (Date.now() < deadline && zfs('list', '-H', '-t', 'all', '-o', 'name') !== before);
    if (signal === 'SIGKILL') await program(['clean']);
    same(`after ${signal}`);
  }
  load.kill('SIGINT');
  // pgbench gives up at the first transaction that fails, and says so.
  const [, errors] = await loaded;
  const logs = readdirSync('/tmp').filter((each) => each.startsWith('load'));
  const lines = logs.map((each) => readFileSync(`/tmp/${each}`, 'utf8').split('\n').length);
  for (const each of logs) rmSync(`/tmp/${each}`);
  const ready = SIZED.includes(name) ? await readyBySize(tablespace) : null;
  console.log(
    `RESULT ${JSON.stringify({
      name,
      exitCode,
      errors,
      left,
      transactions: lines.reduce((sum, each) => sum + each - 1, 0),
      ready,
      clone: report?.clone ?? null,
      touched: report?.target?.touched ?? null,
      command: report?.command?.exitCode ?? null,
      ...(report ? {} : { stderr }),
    })}`,
  );
  asPostgres(`${PROGRAMS}/pg_ctl`, '-D', `${FOLDER}/data`, '-m', 'immediate', '-w', 'stop');
  for (const pool of ['other', 'tank'])
    for (const each of zfs('list', '-H', '-o', 'name', '-r', pool).split('\n').slice(1).reverse())
      zfs('destroy', '-r', each);
  rmSync(FOLDER, { recursive: true, force: true });
}

console.log(`RESULT ${JSON.stringify({ version: run('zfs', 'version').split('\n')[0] })}`);
for (const [name, make] of Object.entries(LAYOUTS))
  await trial(name, make).catch((error) =>
    console.log(`RESULT ${JSON.stringify({ name, error: `${error.message} ${error.stderr ?? ''}` })}`),
  );
