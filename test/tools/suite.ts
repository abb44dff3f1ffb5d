import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliResult, runProgram, safemigrate } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { expectFirstRehearsal } from '../helpers/init.ts';
import { mask } from '../helpers/oracle.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';
import { digestOf, fingerprintOf, withDatabase } from '../helpers/target-state.ts';
import { findTool, TOOL_IDS, type Tool, type ToolCopy, type ToolId } from '../helpers/tools.ts';

const DIRECT = 'the_direct_one';
const TARGET = 'the_target';

/** A run takes a share of these for each tool, and another one for the next tool. */
const CASES = ['arguments', 'init', 'failing'] as const;

/** What has to hold for every tool, whatever it is written in. Installs the tool first, if need be. */
export async function testTool(id: ToolId): Promise<void> {
  const tool = await findTool(id);
  if ('missing' in tool) {
    describe.skipIf(skipReason(tool.missing))(id, () => test.todo('needs its tool'));
    return;
  }
  const first = TOOL_IDS.indexOf(id) % CASES.length;
  const cases = [...CASES.slice(first), ...CASES.slice(0, first)];
  const taken = inThisShare(cases.filter((name) => name !== 'arguments' || tool.withArguments));
  describe(id, () => testsOf(tool, taken));
}

function testsOf(tool: Tool, taken: readonly (typeof CASES)[number][]): void {
  // Other tests' databases on the same server would look like something that the command made there, and `clean --kept`
  // drops everybody's clones.
  let server: Server;
  let direct: string;
  let target: string;
  let copy: ToolCopy;

  beforeAll(async () => {
    server = await ownServer(18);
    direct = withDatabase(server.url, DIRECT);
    target = withDatabase(server.url, TARGET);
  });

  afterAll(() => server.stop());

  const onServer = (...statements: string[]) =>
    withClient(server.url, async (client) => {
      for (const statement of statements) await client.query(statement);
    });

  beforeEach(async () => {
    await onServer(`CREATE DATABASE ${DIRECT}`, `CREATE DATABASE ${TARGET}`);
    copy = await tool.copy();
  });

  afterEach(async () => {
    await onServer(`DROP DATABASE ${DIRECT} WITH (FORCE)`, `DROP DATABASE ${TARGET} WITH (FORCE)`);
    await copy.remove();
    expect(await databases()).toEqual(['postgres', 'template0', 'template1']);
  });

  const databases = () =>
    withClient(server.url, async (client) => {
      const { rows } = await client.query<{ datname: string }>('SELECT datname FROM pg_database ORDER BY 1');
      return rows.map(({ datname }) => datname);
    });

  const alone = async (command: string[]) =>
    runProgram(command, { folder: copy.folder, env: await copy.configure(direct) });

  const wrapped = async (command: string[], ...options: string[]) => run(command, 'variables', options);

  const run = async (command: string[], where: 'variables' | 'arguments', options: string[]) => {
    const file = path.join(copy.folder, 'r.json');
    const env = await copy.configure(target, where);
    const args = [
      '--clone',
      'template',
      '--report',
      file,
      ...tool.options(target),
      ...options,
      '--',
      ...command,
    ];
    const result = await safemigrate(args, { folder: copy.folder, env });
    return { ...result, report: readReport(readFileSync(file, 'utf8')) };
  };

  const expectSameOutput = (ours: CliResult, theirs: CliResult, clone: string) => {
    const masked = mask([DIRECT, clone, TARGET]);
    expect(masked(ours.stdout)).toBe(masked(theirs.stdout));
    expect(masked(ours.stderr)).toContain(masked(theirs.stderr).trim());
  };

  test('a wrapped run gives what a direct run gives, and the target stays as it was', async () => {
    const theirs = await alone(tool.command);
    expect(theirs.exitCode, theirs.stdout + theirs.stderr).toBe(0);
    await expectShop(direct, tool.journal);

    const before = await digestOf(target);
    const { report, ...ours } = await wrapped(tool.command, '--keep');
    expect(ours.exitCode, ours.stdout + ours.stderr).toBe(0);
    expect(await digestOf(target)).toEqual(before);
    const clone = withDatabase(target, report.clone.database);
    await expectShop(clone, tool.journal);
    expect(await fingerprintOf(clone)).toBe(await fingerprintOf(direct));
    await safemigrate(['clean', '--kept'], { env: { DATABASE_URL: target } });
    expectSameOutput(ours, theirs, report.clone.database);
    expect(report.command).toMatchObject({ exitCode: 0, reachedClone: true, byAddress: true, rewritten: [] });
    expect(report.target.changes).toEqual([]);
    const index = report.statements.filter(({ sql }) => /CREATE INDEX CONCURRENTLY/i.test(sql));
    expect(index).toMatchObject([{ tag: 'CREATE INDEX', exactness: 'sampled', error: null }]);
    expect(report.data?.tables).toContainEqual(
      expect.objectContaining({ relation: 'public.customers', rowsBefore: 0, rowsAfter: 501 }),
    );
  });

  if (taken.includes('arguments'))
    test('the connection may stand in arguments of its own', async () => {
      const command = tool.withArguments?.(target) ?? [];
      const before = await digestOf(target);
      const { report, ...ours } = await run(command, 'arguments', []);
      expect(ours.exitCode, ours.stdout + ours.stderr).toBe(0);
      expect(report.command).toMatchObject({ exitCode: 0, reachedClone: true });
      expect(JSON.stringify(report.command.argv)).not.toContain(new URL(target).password);
      expect(await digestOf(target)).toEqual(before);
    });

  if (taken.includes('init'))
    test('the command that init shows passes a rehearsal, with the configuration that init writes', async () => {
      await expectFirstRehearsal(copy.folder, async (lines) => ({
        ...(await copy.configure(target)),
        ...(lines.includes('$DATABASE_URL') ? { DATABASE_URL: target } : {}),
      }));
    });

  if (taken.includes('failing'))
    test('a failing migration fails directly and wrapped in the same words, and nothing is left', async () => {
      const theirs = await alone(tool.failing);
      expect(theirs.exitCode).toBe(tool.failureExitCode);
      expect(theirs.stdout + theirs.stderr).toMatch(/unique/i);

      const before = await digestOf(target);
      const { report, ...ours } = await wrapped(tool.failing);
      expect(ours.exitCode).toBe(1);
      expect(report.command.exitCode).toBe(theirs.exitCode);
      expectSameOutput(ours, theirs, report.clone.database);
      expect(report.verdict.pass).toBe(false);
      expect(report.verdict.reasons[0]).toBe(`the command failed with exit code ${tool.failureExitCode}`);
      expect(await digestOf(target)).toEqual(before);
      expect(await databases()).not.toContain(report.clone.database);
    });
}

async function expectShop(url: string, journal: string): Promise<void> {
  await withClient(url, async (client) => {
    const customers = await client.query('SELECT count(*)::int AS count FROM customers');
    expect(customers.rows).toEqual([{ count: 501 }]);
    const orders = await client.query('SELECT count(*)::int AS count FROM open_orders');
    expect(orders.rows).toEqual([{ count: 334 }]);
    const journals = await client.query('SELECT to_regclass($1) IS NOT NULL AS exists', [journal]);
    expect(journals.rows).toEqual([{ exists: true }]);
  });
}
