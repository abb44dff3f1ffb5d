import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { disturbServer, furnishServer } from '../helpers/busy-server.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { copyProject, PROJECTS } from '../helpers/projects.ts';
import { rehearse } from '../helpers/rehearse.ts';

const trials = Number(process.env.PROVED_TRIALS ?? 200);

const RECONNECTS_EVERY_MS = 40;

/** Works in the target until it is told to stop: one client connects anew for each row, another changes definitions. */
function workIn(target: string) {
  const done = { connections: 0, definitions: 0 };
  let stopped = false;
  const repeat = async (act: () => Promise<unknown>) => {
    while (!stopped) {
      await act();
      await pause(RECONNECTS_EVERY_MS);
    }
  };
  const visit = async () => {
    await withClient(target, (client) => client.query('INSERT INTO visits VALUES (1)'));
    done.connections++;
  };
  const define = async () => {
    const sql =
      'CREATE TABLE of_others (id int); ALTER TABLE of_others ADD COLUMN v text; DROP TABLE of_others';
    await withClient(target, (client) => client.query(sql));
    done.definitions++;
  };
  const workers = [repeat(visit), repeat(define)];
  return {
    done,
    stop: async () => {
      stopped = true;
      await Promise.all(workers);
    },
  };
}

test(`${trials} rehearsals of the tools' projects on a busy server: all are proved on an isolated clone`, async () => {
  const server = await ownServer(18);
  const target = await furnishServer(server);
  const others = [disturbServer(server, { inTarget: true }), workIn(target)] as const;
  onTestFinished(async () => {
    for (const each of others) await each.stop();
    await server.stop();
  });
  const projects = PROJECTS.filter((each) => each.available() === true);
  const rows = projects.map(({ id }) => ({
    tool: id as string,
    rehearsals: 0,
    'proved unchanged': 0,
    'not proved': 0,
    'changed (false)': 0,
    'did not pass': 0,
  }));
  for (let trial = 0; trial < trials; trial++) {
    const project = projects[trial % projects.length];
    const row = rows[trial % projects.length];
    if (!project || !row) throw new Error('no tool of a project is installed');
    const { folder, remove } = await copyProject(project.id);
    const { exitCode, report, stderr } = await rehearse(target, project.command, {
      folder,
      env: { ...project.environment(target), SAFEMIGRATE_CLONE: 'cluster' },
    });
    await remove();
    row.rehearsals++;
    if (report.target.unchanged === true) row['proved unchanged']++;
    else if (report.target.unchanged === null) row['not proved']++;
    else row['changed (false)']++;
    if (exitCode !== 0) row['did not pass']++;
    if (exitCode !== 0 || report.target.unchanged !== true)
      console.log(project.id, exitCode, JSON.stringify([report.target, report.verdict]), stderr);
    expect(report.clone.isolation).toBe('own-cluster');
    expect(report.command.isolation.kind).toBe('sandboxed');
  }
  const sum = (key: 'rehearsals' | 'proved unchanged' | 'not proved' | 'changed (false)' | 'did not pass') =>
    rows.reduce((total, row) => total + row[key], 0);
  const [{ done }, { done: own }] = others;
  const acts = Object.values(done).reduce((total, count) => total + count, own.definitions);
  recordFigures('rehearsals of the tools’ projects on a busy server, PostgreSQL 18', [
    ...rows.map((row) => ({ ...row, 'changes by others': '', 'connections by others': '' })),
    {
      tool: 'all',
      rehearsals: sum('rehearsals'),
      'proved unchanged': sum('proved unchanged'),
      'not proved': sum('not proved'),
      'changed (false)': sum('changed (false)'),
      'did not pass': sum('did not pass'),
      'changes by others': acts,
      'connections by others': own.connections,
    },
  ]);
  expect(sum('proved unchanged')).toBe(trials);
  expect(sum('did not pass')).toBe(0);
}, 10_800_000);
