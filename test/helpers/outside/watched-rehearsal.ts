import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from 'pg';
import { expect } from 'vitest';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import type { PrintedReport } from '../../../src/model/report.ts';
import { PROGRAM, runProgram } from '../cli.ts';
import { withClient } from '../client.ts';
import { ownServer } from '../own-server.ts';
import { readReport } from '../read-report.ts';
import { withDatabase } from '../target-state.ts';
import { LOGGED } from './server-log.ts';
import { type SeenReadings, watchServer } from './server-watch.ts';

export interface RehearsalToWatch {
  /** What the target holds. */
  readonly sql: string;
  /** Where the command runs: `programs.json` there names what it starts (commands/run-programs.mjs). */
  readonly folder: string;
  /** Options of safemigrate. */
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** What is tried: a build of the program. */
  readonly program?: readonly string[];
}

/** A rehearsal, and what others than the program say about it. */
export interface WatchedRehearsal {
  readonly report: PrintedReport;
  /** The server's own log. */
  readonly log: string;
  /** What a session of the test's own saw all the time. */
  readonly seen: SeenReadings;
  /** OIDs and files of the target's tables in `public` before the rehearsal; the clone's begin with the same. */
  readonly relations: ReadonlyMap<string, { readonly oid: number; readonly file: number }>;
  /** When the program was started and had ended, and when it started the command and that ended: milliseconds since 1970. */
  readonly wall: Period;
  readonly command: Period;
  /** Sessions of the test's own after the rehearsal, in the kept clone and in the target. */
  inClone<T>(use: (client: Client) => Promise<T>): Promise<T>;
  inTarget<T>(use: (client: Client) => Promise<T>): Promise<T>;
}

interface Period {
  readonly startedAt: number;
  readonly endedAt: number;
}

const RUN_PROGRAMS = fileURLToPath(new URL('../commands/run-programs.mjs', import.meta.url));

const RELATIONS = `
SELECT relname AS name, oid::int AS oid, pg_relation_filenode(oid)::int AS file FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`;

/** Rehearses on a server of its own, by a clone in it that is kept until `judge` has looked at everything. */
export async function rehearseUnderWatch<T>(
  version: ServerVersion,
  { sql, folder, args = [], env = {}, program = PROGRAM }: RehearsalToWatch,
  judge: (rehearsal: WatchedRehearsal) => Promise<T>,
): Promise<T> {
  const server = await ownServer(version, {
    settings: { ...LOGGED, autovacuum: 'off', max_connections: '60', max_wal_size: '4GB' },
  });
  try {
    await withClient(server.url, (client) => client.query('CREATE DATABASE target'));
    const target = withDatabase(server.url, 'target');
    const rows = await withClient(target, async (client) => {
      await client.query(sql);
      await client.query('VACUUM ANALYZE');
      return (await client.query<{ name: string; oid: number; file: number }>(RELATIONS)).rows;
    });
    const watch = await watchServer(
      server.url,
      rows.map(({ oid }) => oid),
    );
    const startedAt = Date.now();
    const { stdout, stderr } = await runProgram(
      [...program, '--format', 'json', '--keep', ...args, '--', process.execPath, RUN_PROGRAMS],
      { folder, env: { SAFEMIGRATE_CLONE: 'template', DATABASE_URL: target, ...env } },
    );
    const wall = { startedAt, endedAt: Date.now() };
    const seen = await watch.end();
    expect(stdout, stderr).toMatch(/^\{/);
    const report = readReport(stdout);
    expect(report.command.exitCode, stderr).toBe(0);
    return await judge({
      report,
      log: readFileSync(path.join(server.folder, 'log'), 'utf8'),
      seen,
      relations: new Map(rows.map(({ name, ...numbers }) => [name, numbers])),
      wall,
      command: JSON.parse(readFileSync(path.join(folder, 'times.json'), 'utf8')),
      inClone: (use) => withClient(withDatabase(server.url, report.clone.database), use),
      inTarget: (use) => withClient(target, use),
    });
  } finally {
    await server.stop();
  }
}
