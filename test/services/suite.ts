import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ServiceId } from '../../src/clone/clone-settings.ts';
import { serviceNamed } from '../../src/clone/services/all-services.ts';
import { nameOfClone } from '../../src/clone/services/service-name.ts';
import { newRunId } from '../../src/ownership/run-id.ts';
import { runLine, safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type CloningOptions, changedUrl, withCloning } from '../helpers/cloning.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { codeBlocksOf } from '../helpers/documented-commands.ts';
import { type FakeProgram, fakeService, SCHEMA } from '../helpers/fake-service.ts';
import { readReport } from '../helpers/read-report.ts';
import { serverUrl } from '../helpers/servers.ts';

const FOREIGN = 200;

export interface ServiceCase extends FakeProgram {
  readonly service: ServiceId;
  /** The value of SAFEMIGRATE_CLONE_OF. */
  readonly of: string;
  /** What the report's first lines say of a clone, if they have to. */
  readonly doubt?: RegExp;
}

/** The value of an option among arguments; empty without it. */
export function optionOf(args: readonly string[], option: string): string {
  const at = args.indexOf(option);
  return at === -1 ? '' : (args[at + 1] ?? '');
}

const titleOf = (id: ServiceId) => serviceNamed(id)?.title ?? id;

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

/** Everything that each service must stand. */
export async function serviceSuite(given: ServiceCase): Promise<void> {
  const { service: id, of } = given;
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
  });

  const where = ['--clone', id];
  const env = () => ({ DATABASE_URL: target.url, SAFEMIGRATE_CLONE_OF: of });
  const names = () => fake.things.map(({ name }) => name);
  const expectNothingOfOurs = () => {
    expect(names().filter((name) => !name.startsWith('feature-'))).toEqual([]);
    expect(names()).toHaveLength(FOREIGN);
  };
  const entries = () => {
    const folder = path.join(process.env.XDG_STATE_HOME ?? '', 'safemigrate', 'services');
    return existsSync(folder) ? readdirSync(folder) : [];
  };
  const cloning = (options: CloningOptions = {}) =>
    withCloning(target.url, { method: id, of, ...options }, ({ make }) => make());

  describe(`a clone by ${id}`, () => {
    test('is rehearsed on in two commands, and is gone afterwards', async () => {
      const [doctorLine = '', rehearsalLine = ''] = documentedLines(titleOf(id));
      const doctor = await runLine(doctorLine, { env: env() });
      expect(doctor.stdout).toContain(`takes ${id}`);
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
      expect(clone.service?.name).toBe(titleOf(id));
      expect(schema?.changes).toHaveLength(1);
      expect(seen.unchanged).toBe(true);
      if (given.doubt) expect(run.stderr.replace(/\s+/g, ' ')).toMatch(given.doubt);
      else expect(run.stderr).not.toContain('The clone is');
      expectNothingOfOurs();
      expect(entries()).toEqual([]);
    });

    test('that cannot be created is a failure in the words of the service, without its secrets', async () => {
      fake.faults.create = 'fails';
      await expect(cloning()).rejects.toThrow(/ended with 1:\n {2}quota exceeded: token=\*\*\*/);
      expectNothingOfOurs();
      expect(entries()).toEqual([]);
    });

    test('whose creation hangs is given up after its lifetime, and removed', async () => {
      fake.faults.create = 'hangs';
      await expect(cloning({ ttlMs: 4_000 })).rejects.toThrow('took longer than 4');
      expectNothingOfOurs();
    });

    test('that takes its time is waited for', async () => {
      fake.faults.slow = 3;
      const clone = await cloning();
      expect(clone.service?.name).toBe(titleOf(id));
      expectNothingOfOurs();
    });

    test('is removed if the run is interrupted while it waits', async () => {
      fake.faults.slow = 1_000;
      const stop = new AbortController();
      const waiting = cloning({ signal: stop.signal });
      const failed = expect(waiting).rejects.toThrow('stopped');
      await expect.poll(() => fake.calls('create').length && fake.calls('list').length).toBeGreaterThan(2);
      stop.abort(new Error('stopped'));
      await failed;
      expectNothingOfOurs();
      expect(entries()).toEqual([]);
    });

    test('is removed although the first removal fails', async () => {
      fake.faults.destroy = 1;
      await cloning();
      expect(fake.calls('destroy').length).toBeGreaterThan(1);
      expectNothingOfOurs();
    });

    test('is not begun with an expired login, and how to log in is said', async () => {
      fake.faults.expired = true;
      await expect(cloning()).rejects.toThrow(serviceNamed(id)?.login);
      expect(fake.calls('create')).toEqual([]);
    });

    test('is made although the answers have grown by fields', async () => {
      fake.faults.grown = true;
      await cloning();
      expectNothingOfOurs();
    });
  });

  describe(`a clone by ${id} whose run was killed`, () => {
    /** Runs until the moment has come, and kills it. */
    async function killedAt(come: () => boolean | Promise<boolean>): Promise<void> {
      let pid = 0;
      const run = safemigrate([...where, '--', ...sqlCommand('SELECT pg_sleep(3)')], {
        env: { ...env(), XDG_STATE_HOME: temporaryFolder() },
        started: (child) => (pid = child),
      });
      await expect.poll(come).toBe(true);
      process.kill(pid, 'SIGKILL');
      expect((await run).signal).toBe('SIGKILL');
    }
    const clean = (more: readonly string[]) =>
      safemigrate(['clean', ...where, ...more], {
        env: { SAFEMIGRATE_CLONE_OF: of, XDG_STATE_HOME: temporaryFolder() },
      });
    const isSleeping = () =>
      withClient(serverUrl(17), async (client) => {
        const { rowCount } = await client.query(
          `SELECT FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'SELECT pg_sleep%'`,
          [target.name],
        );
        return rowCount === 1;
      });
    const ours = () => fake.things.filter(({ name }) => name.startsWith('safemigrate-'));

    test.each([
      ['is being created', { slow: 3 }, () => ours().length > 0],
      ['is waited for', { slow: 1_000 }, () => ours().length > 0 && fake.calls('list').length > 3],
      ['is in use', {}, () => isSleeping()],
    ] as const)('while it %s is removed by clean from another state folder', async (_, faults, come) => {
      fake.faults = faults;
      await killedAt(come);
      const [left] = ours();
      const unnamed = await clean([]);
      expect(unnamed.stdout).toContain(`${left?.name} at`);
      expect(unnamed.stdout).toContain('not known here whether its run is alive');
      expect(ours()).toHaveLength(1);
      const [listLine = '', cleanLine = ''] = documentedLines('What all have in common');
      const elsewhere = { ...env(), XDG_STATE_HOME: temporaryFolder() };
      const listed = await runLine(listLine.replace('aurora', id), { env: elsewhere });
      expect(listed.stdout).toMatch(new RegExp(`${left?.name} +clone left by a dead run`));
      const { stdout, stderr } = await runLine(cleanLine.replace('aurora', id), { env: elsewhere });
      expect(stdout + stderr).toContain(`removed ${left?.name}`);
      expectNothingOfOurs();
    });
  });

  test(`clean removes nothing at ${id} that is not provably ours`, async () => {
    const real = { run: newRunId(), place: 'abcde', ttlMs: 1, kept: false };
    const valid = nameOfClone({ ...real, run: newRunId(0) });
    const forged = `${valid.slice(0, -1)}${valid.endsWith('0') ? '1' : '0'}`;
    fake.others(forged);
    fake.others('safemigrate-by-hand');
    fake.others(nameOfClone({ ...real, ttlMs: 3_600_000 }));
    const { stdout, exitCode } = await safemigrate(['clean', ...where], {
      env: { SAFEMIGRATE_CLONE_OF: of },
    });
    expect(stdout).toContain(`${forged} at`);
    expect(exitCode).toBe(0);
    expect(names()).toHaveLength(FOREIGN + 3);
    expect(fake.calls('destroy')).toEqual([]);
  });
}
