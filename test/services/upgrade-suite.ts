import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { upgradeReport } from '../../src/model/upgrade-model.ts';
import { COPYING, EVENT, LOG, NEW_RELEASE, OLD_RELEASE } from '../helpers/aws-upgrades.ts';
import { runLine, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { codeBlocksOf } from '../helpers/documented-commands.ts';
import { type FakeService, type Faults, SCHEMA } from '../helpers/fake-service.ts';
import { ownServer } from '../helpers/own-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { serverUrl } from '../helpers/servers.ts';
import { EVERYTHING, inThisShare } from '../helpers/share.ts';
import { killedAtChange, REAL_TIMEOUT_MS, type ServiceCase } from './suite.ts';

const FOREIGN = 200;
/** Each run takes a share of these at the service that has all of them. */
const CASES = [
  'version',
  'refused',
  'other server',
  'interrupted',
  'killed',
  'not removed',
  'by hand',
] as const;
/** So many lists call an upgrade not done that no test sees its end. */
const NEVER_DONE = 1_000;

const PAGE = readFileSync(new URL('../../docs/upgrade.md', import.meta.url), 'utf8');
const [DOCUMENTED = '', BY_HAND = ''] = codeBlocksOf(
  PAGE.slice(PAGE.indexOf('## At a hosted service'), PAGE.indexOf('## What it cannot tell')),
).map(({ text }) => text.trimEnd());

/**
 * Cases of an upgrade by the service. One service has all of them in each run, the others only those in which their calls differ.
 * @param release reads the release of a server that the fake has.
 */
export function upgradeSuite(
  { service: id, of, store, thorough }: Pick<ServiceCase, 'service' | 'of' | 'store' | 'thorough'>,
  fake: FakeService,
  release: (name: string) => Promise<string | undefined>,
): void {
  const role = { user: `owner_${process.pid}`, password: randomBytes(8).toString('hex') };
  const isWhole = EVERYTHING || thorough === true;
  const obstacle = skipReason(fake.missing ?? COPYING.obstacle);
  const limit = { timeout: REAL_TIMEOUT_MS };
  let source: Server;
  let url: string;

  describe.skipIf(obstacle)(`an upgrade by ${id}`, limit, () => {
    beforeAll(async () => {
      source = await ownServer(17);
      for (const server of [source.url, serverUrl(17), serverUrl(18)])
        await withClient(server, (client) =>
          client.query(`CREATE ROLE ${role.user} LOGIN PASSWORD '${role.password}'`),
        );
    });
    afterAll(async () => {
      await source?.stop();
      for (const version of [17, 18] as const)
        await withClient(serverUrl(version), (client) => client.query(`DROP ROLE ${role.user}`));
    });
    beforeEach(async () => {
      const name = `shop_${randomBytes(4).toString('hex')}`;
      const sql = `${SCHEMA}; ALTER TABLE items OWNER TO ${role.user}; CREATE VIEW few AS SELECT id FROM items WHERE id < 9; GRANT ALL ON few TO ${role.user}`;
      await withClient(source.url, (client) => client.query(`CREATE DATABASE ${name}`));
      const made = changedUrl(source.url, { database: name });
      await withClient(made, (client) => client.query(sql));
      fake.reset({ name, version: 17, url: made, drop: async () => {} }, FOREIGN);
      fake.sql = sql;
      await store?.fill(fake.things);
      url = changedUrl(made, role);
    });

    test('is rehearsed by the command of the page, and the clone is asked before and after', async () => {
      const folder = temporaryFolder();
      writeFileSync(
        path.join(folder, 'queries.sql'),
        'SELECT id FROM few WHERE id = 3;\nSELECT count(*) FROM items;',
      );
      const line = DOCUMENTED.split('\n').find((each) => each.includes(`--clone ${id} `)) ?? '';
      const more = `--check 'SELECT sum(id) FROM items' --queries queries.sql -- ${quoted('ALTER TABLE items ADD COLUMN name text')}`;
      const report = path.join(folder, 'report.json');
      const ended = await runLine(`${line} ${more}`, {
        folder,
        env: { ...env(), SAFEMIGRATE_REPORT: report },
      });
      expect(ended.exitCode, ended.stderr).toBe(0);
      expect(ended.stderr).toMatch(/PASSED: users would wait at most .* for the upgrade by Amazon/);
      const read = upgradeReport.parse(JSON.parse(readFileSync(report, 'utf8')));
      expect(read).toMatchObject({
        from: { major: 17, programs: null },
        to: { major: 18, version: NEW_RELEASE, programs: null },
        check: null,
        clone: { containment: 'other-server', service: { readsLazily: id === 'rds' } },
        modes: [{ mode: 'service', outcome: 'passed', wayBack: false, peakBytes: null }],
        command: { exitCode: 0, statements: [{ tag: 'ALTER TABLE' }] },
        application: {
          mode: 'service',
          queries: { checked: 2, broken: [] },
          checks: [{ passed: true }],
          schemaChanges: [],
        },
        recommendation: null,
        verdict: { pass: true, reasons: [] },
        cleanup: { failed: [] },
      });
      expect(read.modes[0]?.phases.map(({ name, down }) => [name, down])).toEqual([
        ['service', true],
        ['statistics', false],
        ['command', true],
      ]);
      expect(read.caveats).toContainEqual(
        expect.objectContaining({ path: 'modes[].downtimeMs', kind: 'estimate' }),
      );
      await expectOnlyOfOthers();
      expect(await columnsOf(url)).toEqual(['id']);
    });

    test('that leaves the old version does not pass, and the service says why', async () => {
      fake.fail({ upgrade: 'fails' });
      const { report, exitCode, stderr } = await rehearsed(['--to', '18']);
      expect(exitCode, stderr).toBe(1);
      expect(report).toMatchObject({
        modes: [{ mode: 'service', outcome: 'failed', phases: [], downtimeMs: null }],
        obstacles: [{ code: 'REFUSED_OTHERWISE', objects: [LOG] }],
        application: null,
        verdict: { pass: false },
      });
      expect(report?.modes[0]?.reason).toContain(
        `the clone is still PostgreSQL ${OLD_RELEASE} afterwards; ${EVENT}`,
      );
      await expectOnlyOfOthers();
    });

    if (!isWhole) return;

    const taken = inThisShare(CASES);

    if (taken.includes('version'))
      test('to a version that the service does not offer is refused before anything is made', async () => {
        const { exitCode, stderr } = await rehearsed(['--to', '19']);
        expect(exitCode).toBe(3);
        expect(stderr.replace(/\s+/g, ' ')).toContain(
          'no upgrade of shop to PostgreSQL 19. It offers 17.6, 18.9, 18.10',
        );
        const same = await rehearsed(['--to', '17']);
        expect(same.exitCode).toBe(4);
        expect(fake.calls('create')).toEqual([]);
      });

    if (taken.includes('refused'))
      test('that the service refuses ends in its words, without its secrets', async () => {
        fake.fail({ upgrade: 'refused' });
        const { exitCode, stderr } = await rehearsed(['--to', '18']);
        expect(exitCode).toBe(3);
        expect(stderr.replace(/\s+/g, ' ')).toContain('Cannot upgrade the clone: token=***');
        await expectOnlyOfOthers();
      });

    if (taken.includes('other server'))
      test('on a clone of another server is refused before it is ordered', async () => {
        const other = await temporaryDatabase(15, { name: fake.target?.name ?? '' });
        const onOther = (sql: string) => withClient(serverUrl(15), (client) => client.query(sql));
        await onOther(`CREATE ROLE ${role.user} LOGIN PASSWORD '${role.password}'`);
        try {
          url = changedUrl(other.url, role);
          const { exitCode, stderr } = await rehearsed(['--to', '18']);
          expect(exitCode).toBe(3);
          expect(stderr.replace(/\s+/g, ' ')).toMatch(/is PostgreSQL 17\S*, and the target is PostgreSQL 15/);
          expect(fake.calls('change').filter(isOrder)).toEqual([]);
          await expectOnlyOfOthers();
        } finally {
          await other.drop();
          await onOther(`DROP ROLE ${role.user}`);
        }
      });

    if (taken.includes('interrupted'))
      test('that Ctrl-C interrupts leaves nothing', async () => {
        fake.fail({ slowUpgrade: NEVER_DONE });
        const run = started();
        await expect.poll(isUpgrading, limit).toBe(true);
        process.kill(-run.pid(), 'SIGINT');
        expect((await run.ended).exitCode).toBe(130);
        await expectOnlyOfOthers();
      });

    if (taken.includes('killed'))
      test('whose run was killed is removed by clean elsewhere, and nothing else is changed', async () => {
        await killedAt({ slowUpgrade: NEVER_DONE }, isUpgrading);
        const [left] = fake.things.filter(({ isForeign }) => !isForeign);
        expect(left?.name).toMatch(/^safemigrate-/);
        await cleaned();
        expect(await release('shop')).toBe(OLD_RELEASE);
        for (const asked of fake.calls('change').filter(isOrder))
          expect(asked.join(' ')).toContain(left?.name);
      });

    if (taken.includes('not removed'))
      test('that Ctrl-C interrupts says what it could not remove, and clean does', async () => {
        // A service may delete nothing that it is upgrading.
        fake.fail({ slowUpgrade: NEVER_DONE, destroy: 3 });
        const run = started();
        await expect.poll(isUpgrading, limit).toBe(true);
        process.kill(-run.pid(), 'SIGINT');
        const { exitCode, stderr } = await run.ended;
        expect(exitCode).toBe(130);
        expect(stderr.replace(/\s+/g, ' ')).toMatch(/could not be released: .*run `safemigrate clean`/);
        await cleaned();
      });

    if (taken.includes('by hand'))
      test('by hand is rehearsed on by the other command of the page', async () => {
        const folder = temporaryFolder();
        writeFileSync(path.join(folder, 'checks.sql'), 'SELECT count(*) FROM items;');
        const line = BY_HAND.replace(
          'npx prisma migrate deploy',
          quoted('ALTER TABLE items ADD COLUMN name text'),
        )
          // No server of the tests has this library loaded.
          .replace(' --queries pg_stat_statements', '');
        const ended = await runLine(line, { folder, env: { UPGRADED_URL: fake.target?.url } });
        expect(ended.exitCode, ended.stderr).toBe(0);
      });

    if (EVERYTHING)
      test('whose run was killed after any call that changes something is removed by clean', async () => {
        // The first one, which creates, is that of a rehearsal.
        let number = 2;
        for (; await killedAtChange(fake, number, started); number++) await cleaned();
        expect(number).toBeGreaterThan(3);
        await expectOnlyOfOthers();
      });
  });

  const env = () => ({ DATABASE_URL: url, SAFEMIGRATE_CLONE_OF: of });

  async function rehearsed(args: readonly string[]) {
    const file = path.join(temporaryFolder(), 'report.json');
    const ended = await safemigrate(['upgrade', '--clone', id, ...args, '--report', file], { env: env() });
    const made = (ended.exitCode ?? 3) < 2;
    return { ...ended, report: made ? upgradeReport.parse(JSON.parse(readFileSync(file, 'utf8'))) : null };
  }

  function started() {
    let pid = 0;
    const ended = safemigrate(['upgrade', '--clone', id, '--to', '18'], {
      env: { ...env(), XDG_STATE_HOME: temporaryFolder() },
      started: (child) => (pid = child),
    });
    return { ended, pid: () => pid };
  }

  function isUpgrading(): boolean {
    return fake.things.some(({ upgrade }) => upgrade !== undefined && upgrade.notReadyFor < NEVER_DONE - 2);
  }

  async function killedAt(faults: Faults, come: () => boolean): Promise<void> {
    fake.fail(faults);
    const run = started();
    await expect.poll(come, limit).toBe(true);
    process.kill(run.pid(), 'SIGKILL');
    expect((await run.ended).signal).toBe('SIGKILL');
  }

  async function cleaned(): Promise<void> {
    fake.fail({});
    const { exitCode, stderr } = await safemigrate(['clean', '--clone', id, '--url', url], {
      env: { SAFEMIGRATE_CLONE_OF: of, XDG_STATE_HOME: temporaryFolder() },
    });
    expect(exitCode, stderr).toBe(0);
    await expectOnlyOfOthers();
  }

  async function expectOnlyOfOthers(): Promise<void> {
    const left = (await store?.names()) ?? [];
    expect(left.filter((name) => !name.startsWith('feature-'))).toEqual([]);
    expect(left).toHaveLength(FOREIGN);
  }
}

function isOrder([, , , body = '']: readonly string[]): boolean {
  return textOfAction(body).startsWith('Modify');
}

function textOfAction(body: string): string {
  return new URLSearchParams(body).get('Action') ?? '';
}

async function columnsOf(url: string): Promise<string[]> {
  return withClient(url, async (client) => {
    const { rows } = await client.query(
      "SELECT attname FROM pg_attribute WHERE attrelid = 'items'::regclass AND attnum > 0 ORDER BY attnum",
    );
    return rows.map(({ attname }) => attname);
  });
}

/** The command for a line of bash. */
function quoted(sql: string): string {
  return sqlCommand(sql)
    .map((word) => `'${word}'`)
    .join(' ');
}
