import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { apply } from '../helpers/apply.ts';
import { runProgram } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { mask } from '../helpers/oracle.ts';
import { copyProject, PROJECTS, type ProjectId } from '../helpers/projects.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers, VERSIONS } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { fingerprintOf } from '../helpers/target-state.ts';

/** The newest, and the oldest with one transaction for each file; projects.test.ts has the versions in between. */
const OLDER: Readonly<Partial<Record<ProjectId, ServerVersion>>> = { dbmate: 14 };
/** One transaction for all files, one for each, and none: a failure undoes everything, a part, or nothing. */
const FAILING: ReadonlySet<string> = new Set(['drizzle', 'dbmate', 'psql']);

/** Each project is tried on one of its versions in each run. */
const PAIRS = inThisShare(
  PROJECTS.flatMap(({ id }) =>
    VERSIONS.filter((version) => version === 18 || version === OLDER[id]).map((version) => ({ id, version })),
  ),
  ({ id }) => id,
);

beforeAll(() => useOwnServers(...VERSIONS));

for (const project of PROJECTS) {
  const available = project.available();
  const missing = available === true ? null : available;
  for (const { version } of PAIRS.filter(({ id }) => id === project.id)) {
    describe.skipIf(skipReason(missing))(`an apply of ${project.id} on PostgreSQL ${version}`, () => {
      let target: TemporaryDatabase;
      let folder: string;
      let remove: () => Promise<void>;

      beforeEach(async () => {
        target = await temporaryDatabase(version);
        ({ folder, remove } = await copyProject(project.id));
      });

      afterEach(async () => {
        await target.drop();
        await remove();
      });

      test('gives the target what a direct run gives it', async () => {
        const direct = await temporaryDatabase(version);
        const alone = await runProgram(project.command, { folder, env: project.environment(direct.url) });
        const env = project.environment(target.url);
        const result = await apply(target.url, project.command, { folder, env });
        expect(result.apply, result.stderr).toMatchObject({
          outcome: 'applied',
          reasons: [],
          schemaEqual: true,
        });
        expect(result.exitCode).toBe(0);
        expect(await fingerprintOf(target.url)).toBe(await fingerprintOf(direct.url));
        expect(await rowsOf(target.url)).toEqual(await rowsOf(direct.url));
        expect(result.apply.command?.exitCode).toBe(alone.exitCode);
        const masked = mask([direct.name, target.name]);
        // The command's output is there twice: once of the rehearsal.
        expect(masked(result.stderr)).toContain(masked(alone.stderr).trim());
        expect(result.apply.statements.length).toBe(result.report.statements.length);
        expect(result.apply.transactions.every(({ outcome }) => outcome !== 'unknown')).toBe(true);
      });

      if (!FAILING.has(project.id)) return;

      test('that fails there says what it committed, and what not', async () => {
        const env = project.environment(target.url);
        const { exitCode, apply: applied } = await apply(target.url, project.failing, {
          folder,
          env,
          args: ['--force', 'to see how it fails'],
        });
        expect(applied.command?.exitCode).toBe(project.failureExitCode);
        const stays = await holdsAnything(target.url);
        expect(exitCode).toBe(stays ? 5 : 4);
        expect(applied.outcome).toBe(stays ? 'partly' : 'failed');
        expect(applied.committed.length > 0).toBe(stays);
        expect(applied.rolledBack.length).toBeGreaterThan(0);
        expect(applied.wayBack !== null).toBe(stays);
      });
    });
  }
}

const TABLES = `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
  WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`;

/** How many rows each table has. */
async function rowsOf(url: string): Promise<Record<string, number>> {
  return withClient(url, async (client) => {
    const { rows: tables } = await client.query<{ name: string }>(TABLES);
    const counts: Record<string, number> = {};
    for (const { name } of tables) {
      const { rows } = await client.query<{ count: number }>(`SELECT count(*)::int FROM ${name}`);
      counts[name] = rows[0]?.count ?? 0;
    }
    return counts;
  });
}

async function holdsAnything(url: string): Promise<boolean> {
  return Object.keys(await rowsOf(url)).length > 0;
}
