import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { disturbServer, furnishServer } from '../helpers/busy-server.ts';
import { sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { ownServer } from '../helpers/own-server.ts';
import { fillForLoad } from '../helpers/pgbench.ts';
import { rehearse, rehearseWatched } from '../helpers/rehearse.ts';
import { passingBy } from '../helpers/unseen-sessions.ts';

const trials = Number(process.env.ACCOUNT_TRIALS ?? 200);

const COMMANDS = [
  'CREATE TABLE notes (id int)',
  'CREATE INDEX CONCURRENTLY ON jobs (id)',
  'VACUUM jobs',
  'DO $$ BEGIN PERFORM 1; END $$',
  'UPDATE jobs SET id = id + 1',
];

async function busyServer(inTarget: boolean) {
  const server = await ownServer(18);
  const target = await furnishServer(server);
  const others = disturbServer(server, { inTarget });
  onTestFinished(async () => {
    await others.stop();
    await server.stop();
  });
  return { target, others };
}

test(`${trials} rehearsals on a server where others change databases, roles and sessions at random`, async () => {
  const counts = { rehearsals: 0, 'proved unchanged': 0, 'not proved': 0, 'changed (false)': 0 };
  const rows = [];
  for (const clone of ['template', 'cluster']) {
    const args = ['--clone', clone];
    // A clone by CREATE DATABASE needs a target without sessions.
    const inTarget = clone === 'cluster';
    const { target, others } = await busyServer(inTarget);
    const found = { ...counts };
    for (let trial = 0; trial < trials / 2; trial++) {
      const { report, exitCode } = await rehearse(
        target,
        sqlCommand(COMMANDS[trial % COMMANDS.length] ?? ''),
        { args },
      );
      found.rehearsals += 1;
      if (report.target.unchanged === true) found['proved unchanged'] += 1;
      else if (report.target.unchanged === null) found['not proved'] += 1;
      else {
        found['changed (false)'] += 1;
        console.log(JSON.stringify(report.target.changes), exitCode);
      }
    }
    const acts = Object.values(others.done).reduce((sum, count) => sum + count, 0);
    rows.push({ clone, ...found, 'changes by others': acts });
    console.log(clone, JSON.stringify(found), JSON.stringify(others.done));
  }
  recordFigures('rehearsals on a server where others are at work, PostgreSQL 18', rows);
  for (const row of rows) expect(row['changed (false)']).toBe(0);
});

test(`${trials / 2} own connections that live for some milliseconds: none ends as proved`, async () => {
  const rows = [];
  for (const isBusy of [false, true]) {
    const server = await ownServer(18);
    const target = await furnishServer(server);
    const others = isBusy ? disturbServer(server, { inTarget: true }) : undefined;
    const found = {
      connections: 0,
      'exit code 5': 0,
      'not proved': 0,
      'nothing written (seen)': 0,
      silent: 0,
    };
    for (let trial = 0; trial < trials / 4; trial++) {
      const sql = trial % 2 === 0 ? 'INSERT INTO jobs VALUES (1)' : 'SELECT 1';
      const { report, exitCode } = await rehearseWatched(target, passingBy(target, temporaryFolder(), sql), {
        args: ['--clone', 'cluster'],
      });
      found.connections += 1;
      if (exitCode === 5) found['exit code 5'] += 1;
      else if (report.target.unchanged === null) found['not proved'] += 1;
      else if (report.targetConnections.length > 0) found['nothing written (seen)'] += 1;
      else found.silent += 1;
    }
    await others?.stop();
    await server.stop();
    rows.push({ server: isBusy ? 'busy' : 'quiet', ...found });
    console.log(JSON.stringify(rows.at(-1)));
  }
  recordFigures('own connections of some milliseconds to the target, PostgreSQL 18', rows);
  for (const { silent } of rows) expect(silent).toBe(0);
});

const LOADS = [
  { load: 'pgbench, 4 sessions that stay', words: ['-c', '4'] },
  { load: 'pgbench, 4 clients that connect for each transaction', words: ['-c', '4', '-C'] },
  { load: 'pgbench, 1 client that connects 5 times a second', words: ['-c', '1', '-C', '-R', '5'] },
  { load: 'nobody', words: null },
] as const;

test('how often --require-proof would fail beside others who work in the target', async () => {
  const rows = [];
  for (const { load, words } of LOADS) {
    const server = await ownServer(18);
    const target = await furnishServer(server);
    await fillForLoad(target, 1);
    const child = words && spawn('pgbench', ['-n', '-T', '3600', ...words, target], { stdio: 'ignore' });
    const found = { load, rehearsals: trials / 20, 'not proved': 0, 'changed (false)': 0 };
    for (let trial = 0; trial < trials / 20; trial++) {
      const { report } = await rehearse(target, sqlCommand('CREATE TABLE notes (id int)'), {
        args: ['--clone', 'cluster'],
      });
      if (report.target.unchanged === null) found['not proved'] += 1;
      if (report.target.unchanged === false) found['changed (false)'] += 1;
    }
    child?.kill();
    await server.stop();
    rows.push(found);
    console.log(JSON.stringify(found));
  }
  recordFigures('rehearsals that are not proved beside others in the target, PostgreSQL 18', rows);
  for (const row of rows) expect(row['changed (false)']).toBe(0);
});
