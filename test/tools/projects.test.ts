import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Report } from '../../src/model/report.ts';
import { runProgram, safemigrate } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { mask } from '../helpers/oracle.ts';
import { copyProject, PROJECTS, type Project } from '../helpers/projects.ts';
import { readReport } from '../helpers/read-report.ts';
import { skipReason } from '../helpers/requirements.ts';
import { majorOf, useOwnServers, VERSIONS } from '../helpers/servers.ts';
import { inThisShare } from '../helpers/share.ts';
import { clonesOf, digestOf, dropDatabase, fingerprintOf, withDatabase } from '../helpers/target-state.ts';

/** The newest, and one older each, so that all versions meet a real tool. */
const OLDER = { psql: 14, 'node-pg-migrate': 15, knex: 16, drizzle: 17, typeorm: 16, dbmate: 14 } as const;

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
    describe.skipIf(skipReason(missing))(`${project.id} on PostgreSQL ${version}`, () => {
      let target: TemporaryDatabase;
      let folder: string;
      let remove: () => Promise<void>;

      beforeEach(async () => {
        target = await temporaryDatabase(version);
        ({ folder, remove } = await copyProject(project.id));
      });

      afterEach(async () => {
        for (const clone of await clonesOf(version, target.name)) await dropDatabase(version, clone);
        await target.drop();
        await remove();
      });

      const wrapped = async (command: string[], ...options: string[]) => {
        const file = path.join(folder, 'report.json');
        const env = project.environment(target.url);
        const result = await safemigrate(['--report', file, ...options, '--', ...command], { folder, env });
        const text = readFileSync(file, 'utf8');
        return { ...result, content: JSON.parse(text) as unknown, report: readReport(text) };
      };

      test('a wrapped run gives what a direct run gives, and the target stays as it was', async () => {
        const direct = await temporaryDatabase(version);
        const alone = await runProgram(project.command, {
          folder,
          env: project.environment(direct.url),
        });
        const before = await digestOf(target.url);
        const { content, report, ...result } = await wrapped(project.command, '--keep');
        expect(result.exitCode, result.stderr).toBe(0);
        expect(content).toEqual(report);
        expectSensible(report, target, project);
        expect(await digestOf(target.url)).toEqual(before);

        const clone = withDatabase(target.url, report.clone.database);
        expect(await fingerprintOf(clone)).toBe(await fingerprintOf(direct.url));
        expect(report.command.exitCode).toBe(alone.exitCode);
        const masked = mask([direct.name, target.name, report.clone.database]);
        expect(masked(result.stdout)).toBe(masked(alone.stdout));
        expect(masked(result.stderr)).toContain(masked(alone.stderr).trim());
      });

      // On an older version tools/apply-projects.test.ts has one that fails, which begins with a rehearsal.
      if (version !== 18) return;

      test('a failing migration fails the rehearsal with the command’s own words, and nothing is left', async () => {
        const before = await digestOf(target.url);
        const { exitCode, stdout, stderr, report } = await wrapped(project.failing);
        expect(exitCode).toBe(1);
        expect(report.command.exitCode).toBe(project.failureExitCode);
        expect(report.verdict.pass).toBe(false);
        expect(report.verdict.reasons[0]).toBe(
          `the command failed with exit code ${project.failureExitCode}`,
        );
        // Drizzle's migrations share one transaction: it leaves nothing but the schema and the empty table of its own.
        const codes = report.hazards.map(({ code }) => code);
        expect(codes.includes('HALF_APPLIED')).toBe(project.id !== 'drizzle');
        expect(stdout + stderr).toMatch(/unique|duplicate/i);
        expect(stderr).toMatch(/FAILED|DID NOT PASS/);
        expect(await digestOf(target.url)).toEqual(before);
        expect(await clonesOf(version, target.name)).toEqual([]);
      });
    });
  }
}

function expectSensible(report: Report, target: TemporaryDatabase, project: Project): void {
  expect(report).toMatchObject({
    version: 1,
    run: { mode: 'rehearse' },
    target: { database: target.name, source: 'DATABASE_URL', changes: [] },
    clone: { method: 'template', isolation: 'same-cluster', kept: true },
    command: { argv: project.command, exitCode: 0, signal: null, timedOut: false, reachedClone: true },
    verdict: { pass: true, reasons: [] },
    cleanup: { failed: [] },
  });
  expect(report.target.serverVersion).toMatch(new RegExp(`^${majorOf(target.version)}(?:\\.|rc)`));
  expect(['clone', 'copy', 'wal_log']).toContain(report.clone.strategy);
  expect(report.clone.durationMs).toBeGreaterThan(0);
  const whole = Date.parse(report.run.finishedAt) - Date.parse(report.run.startedAt);
  expect(report.clone.durationMs).toBeLessThan(whole);
  expect(report.command).toMatchObject({ byAddress: true, rewritten: [] });
  expect(report.schema?.changes).toContainEqual({
    verb: 'create',
    kind: 'table',
    object: 'public.customers',
    sql: expect.stringMatching(/^CREATE TABLE "?public"?\."?customers"? \(/),
    dataLoss: false,
  });
  // drizzle-kit runs all migrations in one transaction, where it is not possible.
  if (project.id !== 'drizzle') {
    const index = report.statements.filter(({ sql }) => /^CREATE\s+INDEX\s+CONCURRENTLY/i.test(sql));
    expect(index).toMatchObject([
      { tag: 'CREATE INDEX', exactness: 'sampled', explicit: false, error: null },
    ]);
  }
  expect(report.data?.tables).toContainEqual(
    expect.objectContaining({ relation: 'public.customers', rowsBefore: 0, rowsAfter: 501, exact: true }),
  );
}
