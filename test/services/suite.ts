import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { SERVICE_IDS, type ServiceId, serviceOf } from '../../src/clone/services/service-list.ts';
import { nameOfClone } from '../../src/clone/services/service-name.ts';
import { newRunId } from '../../src/ownership/run-id.ts';
import { type CliResult, runLine, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type CloningOptions, changedUrl, withCloning } from '../helpers/cloning.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { codeBlocksOf } from '../helpers/documented-commands.ts';
import {
  type FakeProgram,
  type FakeService,
  type Faults,
  fakeService,
  SCHEMA,
} from '../helpers/fake-service.ts';
import { readReport } from '../helpers/read-report.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { serverUrl } from '../helpers/servers.ts';
import { EVERYTHING, inThisShare } from '../helpers/share.ts';

const FOREIGN = 200;
/** So many lists call a clone not ready that no test sees it ready. */
const NEVER_READY = 1_000;
const HOUR_MS = 3_600_000;
/** A real program in Node needs a second of work for each call, and a case makes dozens. */
export const REAL_TIMEOUT_MS = 400_000;

export interface ServiceCase extends FakeProgram {
  readonly service: ServiceId;
  /** The value of SAFEMIGRATE_CLONE_OF. */
  readonly of: string;
  /** Units that doctor says a clone is billed by; left out if nothing is billed. */
  readonly billed?: RegExp;
  /** What the report's first lines say of a clone, if they have to. */
  readonly doubt?: RegExp;
  /** Kills the run after each change, too: enough for one made in one step, and one made in two. The soak does so with all. */
  readonly thorough?: true;
  /** Plays load, on a second clone: enough for one with roles of its own, and one with those of the target. */
  readonly playsLoad?: true;
}

/** A run takes a share of these at each service, and another one at the next service. */
const CASES = ['refused', 'interrupted', 'hanging', 'killed'] as const;

/** The value of an option among arguments; empty without it. */
export function optionOf(args: readonly string[], option: string): string {
  const at = args.indexOf(option);
  return at === -1 ? '' : (args[at + 1] ?? '');
}

/** A command that also tries to log in to the clone past the proxy. */
const TRYING = `bash -c 'DATABASE_URL=$PAST_THE_PROXY ${quoted('SELECT 1')} && echo REACHED; exec ${quoted('ALTER TABLE items ADD COLUMN name text')}'`;

/** The command for a line of bash within single quotes. */
function quoted(sql: string): string {
  return sqlCommand(sql)
    .map((word) => `"${word}"`)
    .join(' ');
}

const PAGE = readFileSync(new URL('../../docs/services.md', import.meta.url), 'utf8');

/** The lines of shell in a section of the page; those before the first section without a heading. */
export function documentedLines(heading?: string): string[] {
  const sections = PAGE.split(/^## /m);
  const section =
    heading === undefined ? sections[0] : sections.find((text) => text.startsWith(`${heading}\n`));
  return codeBlocksOf(section ?? '').flatMap(({ text }) => text.trimEnd().split('\n'));
}

/** Everything that each service must stand. @returns its fake, for tests of one service. */
export async function serviceSuite(given: ServiceCase): Promise<FakeService> {
  const { service: id, of, store } = given;
  const { title, login } = await serviceOf(id);
  const isThorough = EVERYTHING || given.thorough === true;
  // Each call of a real program takes a second: the soak makes all of them.
  const isQuick = EVERYTHING || !given.real;
  const first = SERVICE_IDS.indexOf(id) % CASES.length;
  const taken = inThisShare([...CASES.slice(first), ...CASES.slice(0, first)]);
  const fake = await fakeService(given);
  let target: TemporaryDatabase;

  // Clones have the roles and passwords of their source.
  const role = { user: `app_${process.pid}`, password: randomBytes(8).toString('hex') };
  const onServers = async (sql: string) => {
    for (const version of [18, 17, 16] as const)
      await withClient(serverUrl(version), (client) => client.query(sql));
  };
  beforeAll(() => onServers(`CREATE ROLE ${role.user} SUPERUSER LOGIN PASSWORD '${role.password}'`));
  afterAll(() => onServers(`DROP ROLE ${role.user}`));

  beforeEach(async () => {
    const made = await temporaryDatabase(18, { sql: SCHEMA });
    target = { ...made, url: changedUrl(made.url, role) };
    fake.reset(target, FOREIGN);
    await store?.fill(fake.things);
  });

  const env = () => ({ DATABASE_URL: target.url, SAFEMIGRATE_CLONE_OF: of });
  const names = async () => (await store?.names()) ?? fake.things.map(({ name }) => name);
  const expectOnlyOfOthers = async (...others: string[]) => {
    const left = await names();
    expect(left.filter((name) => !name.startsWith('feature-')).toSorted()).toEqual(others.toSorted());
    expect(left).toHaveLength(FOREIGN + others.length);
  };
  const entries = () => {
    const folder = path.join(process.env.XDG_STATE_HOME ?? '', 'safemigrate', 'services');
    return existsSync(folder) ? readdirSync(folder) : [];
  };
  const cloning = (options: CloningOptions = {}) =>
    withCloning(target.url, { method: id, of, ...options }, ({ make }) => make());

  const [listLine = '', cleanLine = ''] = documentedLines('What all have in common').map((line) =>
    line.replace('aurora', id),
  );
  const limit = given.real ? { timeout: REAL_TIMEOUT_MS } : {};
  describe.skipIf(skipReason(fake.missing))(`a clone by ${id}`, limit, () => {
    test('is rehearsed on in two commands, although it is slow, answers have new fields, and a removal fails', async () => {
      fake.fail({ slow: 2, grown: true, destroy: 1 });
      const [doctorLine = '', rehearsalLine = ''] = documentedLines(title);
      const doctor = await runLine(doctorLine, { env: env() });
      expect(doctor.stdout).toContain(`takes ${id}`);
      const [, billed] = /^ +billed by (.*?)\n +the login of/ms.exec(doctor.stdout) ?? [];
      if (given.billed) expect(billed?.replace(/\s+/g, ' ')).toMatch(given.billed);
      else expect(billed).toBeUndefined();
      expect(doctor.exitCode).toBe(0);
      const report = path.join(temporaryFolder(), 'report.json');
      const run = await runLine(rehearsalLine.replace('npx prisma migrate deploy', TRYING), {
        env: {
          ...env(),
          SAFEMIGRATE_REPORT: report,
          PAST_THE_PROXY: changedUrl(serverUrl(17), { ...role, database: target.name }),
        },
      });
      expect(run.exitCode, run.stderr).toBe(0);
      expect(run.stdout).not.toContain('REACHED');
      const { clone, schema, target: seen } = readReport(readFileSync(report, 'utf8'));
      expect(clone).toMatchObject({ method: id, isolation: 'own-cluster', containment: 'other-server' });
      expect(clone.service?.name).toBe(title);
      expect(schema?.changes).toHaveLength(1);
      expect(seen.unchanged).toBe(true);
      const [firstLines = ''] = /^. PASSED.*?\n\n/ms.exec(run.stderr) ?? [];
      if (given.doubt) expect(firstLines.replace(/\s+/g, ' ')).toMatch(given.doubt);
      else expect(run.stderr).not.toContain('The clone is');
      expect(fake.calls('destroy').length).toBeGreaterThan(1);
      await expectOnlyOfOthers();
      expect(entries()).toEqual([]);
    });

    if (taken.includes('refused'))
      test('is refused in the words of the service, without its secrets', async () => {
        fake.fail({ expired: true });
        await expect(cloning()).rejects.toThrow(login);
        expect(fake.calls('create')).toEqual([]);
        fake.fail({ create: 'fails' });
        await expect(cloning()).rejects.toThrow(/ended with \d+:\n {2}.*quota exceeded: token=\*\*\*/s);
        await expectOnlyOfOthers();
        expect(entries()).toEqual([]);
      });

    if (taken.includes('interrupted'))
      test('is removed if Ctrl-C ends the run while it waits', async () => {
        fake.fail({ slow: NEVER_READY });
        const run = started('SELECT 1', process.env.XDG_STATE_HOME);
        await expect.poll(() => fake.polls(), limit).toBeGreaterThan(1);
        // A terminal sends it to all processes of the group.
        process.kill(-run.pid(), 'SIGINT');
        expect((await run.ended).exitCode).toBe(130);
        await expectOnlyOfOthers();
        expect(entries()).toEqual([]);
      });

    if (isQuick && taken.includes('hanging'))
      test('whose creation hangs is given up after its lifetime, and removed', async () => {
        fake.fail({ create: 'hangs' });
        await expect(cloning({ ttlMs: 4_000 })).rejects.toThrow('took longer than 4');
        await expectOnlyOfOthers();
      });

    if (given.doubt?.source.includes('data'))
      test('of older or of unknown data is refused above --limit clone-age, and removed', async () => {
        const refused = /^The data of the clone from .+ is (1 d|24|of an unknown time).*clone-age is 12 h/;
        await expect(cloning({ maxAgeMs: 12 * HOUR_MS })).rejects.toThrow(refused);
        expect(fake.calls('create')).toHaveLength(1);
        await expectOnlyOfOthers();
        expect(entries()).toEqual([]);
      });

    if (given.playsLoad)
      test('is for the load if there is one, beside another for the command, and both are removed', async () => {
        const script = path.join(temporaryFolder(), 'reads.sql');
        writeFileSync(script, 'SELECT count(*) FROM items;');
        const rate = { SAFEMIGRATE_LOAD_RATE: '50', SAFEMIGRATE_LOAD_WARMUP: '1s' };
        const { report } = await rehearse(target.url, sqlCommand('ALTER TABLE items ADD COLUMN name text'), {
          args: ['--clone', id, '--load', script],
          env: { SAFEMIGRATE_CLONE_OF: of, ...rate },
        });
        // The fake's servers are of two versions, so that the schemas are not compared here.
        expect(report.load).toMatchObject({ source: 'pgbench', command: { exitCode: 0 } });
        expect(report.load?.before.transactions).toBeGreaterThan(10);
        expect(new Set(fake.calls('create').map((words) => words.join(' '))).size).toBe(2);
        expect(report.cleanup.failed).toEqual([]);
        await expectOnlyOfOthers();
      });

    if (isThorough)
      test('whose run was killed after any call that changes something is removed by clean', async () => {
        // The first one, which creates, is that of the next test.
        let number = 2;
        for (; await killedAtChange(fake, number, () => started('SELECT 1')); number++) {
          fake.fail({});
          const { exitCode } = await runLine(cleanLine, {
            env: { ...env(), XDG_STATE_HOME: temporaryFolder() },
          });
          expect(exitCode).toBe(0);
          await expectOnlyOfOthers();
        }
        expect(number).toBeGreaterThan(2);
        await expectOnlyOfOthers();
      });

    if (taken.includes('killed'))
      test('whose run was killed is removed by clean elsewhere, and nothing else is', async () => {
        const elsewhere = { ...env(), XDG_STATE_HOME: temporaryFolder() };
        if (isQuick) {
          await killedAt({ create: 'hangs' }, () => ours().length === 1);
          await killedAt({ slow: NEVER_READY }, () => ours().length === 2 && fake.polls() > 1);
        }
        await killedAt({}, isSleeping);
        fake.fail({});
        const left = ours().map(({ name }) => name);
        expect(left).toHaveLength(isQuick ? 3 : 1);
        const others = namesLikeOurs();
        for (const name of others) fake.others(name);
        await store?.fill(fake.things);
        if (isThorough) {
          const unnamed = await safemigrate(['clean', '--clone', id], {
            env: { SAFEMIGRATE_CLONE_OF: of, XDG_STATE_HOME: temporaryFolder() },
          });
          const unknown = unnamed.stdout.match(/not known here whether its run is alive/g);
          expect(unknown?.length).toBeGreaterThanOrEqual(left.length);
          const listed = await runLine(listLine, { env: elsewhere });
          for (const name of left)
            expect(listed.stdout).toMatch(new RegExp(`${name} +clone left by a dead run`));
          // Not by the calls: a program of a run that was killed may send its own again, after a minute.
          expect(ours().map(({ name }) => name)).toEqual(expect.arrayContaining(left));
        }
        const { stdout, stderr, exitCode } = await runLine(cleanLine, { env: elsewhere });
        for (const name of left) expect(stdout + stderr).toContain(`removed ${name}`);
        for (const name of others) expect(stdout + stderr).toContain(`${name} at`);
        expect(exitCode).toBe(0);
        await expectOnlyOfOthers(...others);
      });
  });

  /** Starts a run whose command is this statement. */
  function started(sql: string, state = temporaryFolder()) {
    let pid = 0;
    const ended = safemigrate(['--clone', id, '--', ...sqlCommand(sql)], {
      env: { ...env(), XDG_STATE_HOME: state },
      started: (child) => (pid = child),
    });
    return { ended, pid: () => pid };
  }

  /** Runs with these faults until the moment has come, and kills it. */
  async function killedAt(faults: Faults, come: () => boolean | Promise<boolean>): Promise<void> {
    fake.fail(faults);
    const run = started('SELECT pg_sleep(30)');
    await expect.poll(come, limit).toBe(true);
    process.kill(run.pid(), 'SIGKILL');
    expect((await run.ended).signal).toBe('SIGKILL');
  }

  function ours() {
    return fake.things.filter(({ name }) => name.startsWith('safemigrate-'));
  }

  function isSleeping(): Promise<boolean> {
    return withClient(serverUrl(17), async (client) => {
      const { rowCount } = await client.query(
        `SELECT FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'SELECT pg_sleep%'`,
        [target.name],
      );
      return rowCount === 1;
    });
  }
  return fake;
}

/** A run of the command line that was started. */
export interface StartedRun {
  readonly ended: Promise<CliResult>;
  pid(): number;
}

/** Kills a run after a call that changed something. @returns false if the run makes fewer of them, and so has ended. */
export async function killedAtChange(
  fake: FakeService,
  number: number,
  start: () => StartedRun,
): Promise<boolean> {
  fake.fail({ hangsAt: number });
  const run = start();
  let exitCode: number | null | undefined;
  void run.ended.then((result) => (exitCode = result.exitCode));
  const come = () => fake.hangs || exitCode !== undefined;
  await expect.poll(come, { timeout: REAL_TIMEOUT_MS }).toBe(true);
  if (!fake.hangs) expect(exitCode).toBe(0);
  else {
    process.kill(run.pid(), 'SIGKILL');
    await run.ended;
  }
  return fake.hangs;
}

/** Names that begin like ours: with a wrong check digit, by hand, and of runs that may live elsewhere, also by a slower clock. */
function namesLikeOurs(): string[] {
  const elsewhere = { place: 'abcde', ttlMs: 3_600_000, kept: false };
  const valid = nameOfClone({ ...elsewhere, run: newRunId(0) });
  const forged = `${valid.slice(0, -1)}${valid.endsWith('0') ? '1' : '0'}`;
  const runs = [newRunId(), newRunId(Date.now() - elsewhere.ttlMs - 300_000)];
  return [forged, 'safemigrate-by-hand', ...runs.map((run) => nameOfClone({ ...elsewhere, run }))];
}
