import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { PrintedReport } from '../../../src/model/report.ts';
import { PROGRAM, runProgram, temporaryFolder } from '../cli.ts';
import { withClient } from '../client.ts';
import { LANGUAGES } from '../drivers.ts';
import { ownServer } from '../own-server.ts';
import { readReport } from '../read-report.ts';
import { withDatabase } from '../target-state.ts';
import { toolchain } from '../toolchains.ts';
import { keyOf, type MeasuredDriver } from './modes.ts';
import { LOGGED, type LoggedExecution, readServerLog } from './server-log.ts';
import { type SeenReadings, watchServer } from './server-watch.ts';
import { type Cost, stepsOf, tablesOf } from './steps.ts';

/** A rehearsal, and what others than the program say about it. */
export interface MeasuredRun {
  readonly report: PrintedReport;
  readonly executions: readonly LoggedExecution[];
  readonly seen: SeenReadings;
  /** OIDs of the relations of the steps, the same in target and clone. */
  readonly relations: ReadonlyMap<string, number>;
  readonly keys: readonly string[];
  /** What sessions of the test's own read in the clone and in its target after the run. */
  readonly counters: readonly Counters[];
}

interface Counters {
  readonly relation: string;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly fileBefore: number;
  readonly fileAfter: number;
}

const TOGETHER = fileURLToPath(new URL('../commands/run-together.mjs', import.meta.url));

const RELATION_IDS = `
SELECT relname AS name, oid::int AS oid, pg_relation_filenode(oid)::int AS file FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`;

const WRITTEN = `
SELECT relname AS name, n_tup_ins::int AS inserted, n_tup_upd::int AS updated, n_tup_del::int AS deleted, pg_relation_filenode(relid)::int AS file
FROM pg_stat_user_tables`;

/** Rehearses one command that has all modes of these drivers run their steps, each driver beside the others. */
export async function measure(
  version: ServerVersion,
  drivers: readonly MeasuredDriver[],
  cost: Cost,
  program: readonly string[] = PROGRAM,
): Promise<MeasuredRun> {
  const keys = drivers.flatMap(({ name, modes }) => modes.map((mode) => keyOf(name, mode)));
  const server = await ownServer(version, { settings: { ...LOGGED, max_connections: '60' } });
  try {
    const target = withDatabase(server.url, 'target');
    await withClient(server.url, (client) => client.query('CREATE DATABASE target'));
    const before = await withClient(target, async (client) => {
      await client.query(tablesOf(keys, cost));
      await client.query('VACUUM ANALYZE');
      return (await client.query<{ name: string; oid: number; file: number }>(RELATION_IDS)).rows;
    });
    const relations = new Map(before.map(({ name, oid }) => [name, oid]));
    const folder = await folderOf(drivers, cost);
    const watch = await watchServer(server.url, [...relations.values()]);
    const result = await runProgram(
      [...program, '--format', 'json', '--keep', '--', process.execPath, TOGETHER],
      { folder, env: { SAFEMIGRATE_CLONE: 'template', DATABASE_URL: target } },
    );
    const seen = await watch.end();
    expect(result.stdout, result.stderr).toMatch(/^\{/);
    const report = readReport(result.stdout);
    expect(report.command.exitCode, result.stderr).toBe(0);
    const after = await withClient(withDatabase(server.url, report.clone.database), async (client) => {
      return (await client.query<Omit<Counters, 'relation'> & { name: string; file: number }>(WRITTEN)).rows;
    });
    const log = readFileSync(path.join(server.folder, 'log'), 'utf8');
    return {
      report,
      executions: readServerLog(log, report.clone.database),
      seen,
      relations,
      keys,
      counters: after.map(({ name, file, ...counts }) => ({
        ...counts,
        relation: name,
        fileBefore: before.find((each) => each.name === name)?.file ?? 0,
        fileAfter: file,
      })),
    };
  } finally {
    await server.stop();
  }
}

/** The folder that the command runs in: programs, their steps, and what to start. */
async function folderOf(drivers: readonly MeasuredDriver[], cost: Cost): Promise<string> {
  const folder = temporaryFolder();
  const installed = new Map<MeasuredDriver['language'], string>([[null, '']]);
  const commands: (readonly string[])[] = [];
  const steps: Record<string, Record<string, unknown>> = {};
  for (const { name, modes, language, command, scripts } of drivers) {
    if (language && !installed.has(language)) installed.set(language, await installedIn(folder, language));
    commands.push(command(installed.get(language) ?? ''));
    steps[name] = Object.fromEntries(modes.map((mode) => [mode, stepsOf(keyOf(name, mode), cost)]));
    for (const mode of modes)
      for (const [file, text] of Object.entries(scripts?.(mode, stepsOf(keyOf(name, mode), cost)) ?? {}))
        writeFileSync(path.join(folder, file), text);
  }
  writeFileSync(path.join(folder, 'steps.json'), JSON.stringify(steps));
  writeFileSync(path.join(folder, 'programs.json'), JSON.stringify(commands));
  return folder;
}

async function installedIn(folder: string, language: keyof typeof LANGUAGES): Promise<string> {
  const { folder: fixture, toolchain: wanted } = LANGUAGES[language];
  const found = await toolchain(`drivers-${language}`, fixture, wanted);
  if ('missing' in found) throw new Error(found.missing);
  cpSync(fixture, folder, { recursive: true });
  if (language === 'node')
    symlinkSync(path.join(found.folder, 'node_modules'), path.join(folder, 'node_modules'));
  return found.folder;
}
