import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { cleanExternals, writeExternal } from '../../../src/ownership/external-clones.ts';
import { ourStamp } from '../../../src/ownership/process-stamp.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';
import { type Cloning, type CloningOptions, changedUrl, withCloning } from '../../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { majorOf, VERSIONS } from '../../helpers/servers.ts';

const LAST = VERSIONS.at(-1) ?? 18;
const OTHER = VERSIONS.findLast((version) => majorOf(version) !== majorOf(LAST)) ?? 17;

const state = mkdtempSync(path.join(tmpdir(), 'state-'));
process.env.XDG_STATE_HOME = state;
afterAll(() => rmSync(state, { recursive: true }));

const entries = () => {
  const folder = path.join(state, 'safemigrate', 'external');
  return existsSync(folder) ? readdirSync(folder).map((name) => path.join(folder, name)) : [];
};

beforeEach(() => expect(entries()).toEqual([]));

/** What the command that removes the clone was told, a line for each time. */
function destroyedBy(): { destroy: string; told: () => string[] } {
  const folder = mkdtempSync(path.join(tmpdir(), 'external-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'destroyed');
  return {
    destroy: `echo "$SAFEMIGRATE_RUN $SAFEMIGRATE_CLONE_URL" >> ${file}`,
    told: () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []),
  };
}

const printing = (url: string) =>
  `echo "branch of $SAFEMIGRATE_TARGET_DATABASE on $SAFEMIGRATE_TARGET_HOST:$SAFEMIGRATE_TARGET_PORT is made" && echo '${url}'; echo; (sleep 2 &)`;

const externally = <T>(
  url: string,
  commands: { create: string; destroy: string },
  use: (cloning: Cloning) => Promise<T>,
  more: CloningOptions = {},
) => withCloning(url, { method: 'external', external: commands, ...more }, use);

describe('a clone by commands of the user', () => {
  test('on another server is a cluster of its own, and is removed at the end', async () => {
    const target = await temporaryDatabase(LAST);
    const elsewhere = await temporaryDatabase(OTHER, { sql: 'CREATE TABLE t (n int)' });
    const { destroy, told } = destroyedBy();
    const create = `echo '${elsewhere.url}'`;
    const run = await externally(target.url, { create, destroy }, async ({ make, context }) => {
      const clone = await make();
      expect(clone).toMatchObject({
        method: 'external',
        isolation: 'own-cluster',
        database: elsewhere.name,
        sharesRoles: false,
      });
      expect(clone.caveats.map(({ reason }) => reason).join()).toContain(`PostgreSQL ${OTHER}`);
      const [file = ''] = entries();
      const password = decodeURIComponent(new URL(elsewhere.url).password);
      expect(readFileSync(file, 'utf8')).toContain(elsewhere.name);
      expect(readFileSync(file, 'utf8')).not.toContain(password);
      expect(told()).toEqual([]);
      return context.run;
    });
    expect(told()).toEqual([`${run} ${elsewhere.url}`]);
  });

  test('is told to lack the extensions of the target, and to have other settings', async () => {
    const target = await temporaryDatabase(LAST);
    await withClient(target.url, (client) =>
      client.query(`ALTER DATABASE ${target.name} SET maintenance_work_mem = '123MB'`),
    );
    const elsewhere = await temporaryDatabase(OTHER, { sql: 'DROP EXTENSION plpgsql' });
    const commands = { create: `echo '${elsewhere.url}'`, destroy: 'true' };
    const reasons = await externally(target.url, commands, async ({ make }) =>
      (await make()).caveats.map(({ reason }) => reason),
    );
    expect(reasons).toContainEqual(expect.stringMatching(/^it lacks extensions .*: plpgsql/));
    expect(reasons).toContainEqual(
      expect.stringMatching(/^its maintenance_work_mem is \d+MB, and the target's 123MB$/),
    );
    expect(reasons.join()).not.toContain('max_connections');
  });

  test("beside the target, printed as the last line, shares the target's cluster", async () => {
    const target = await temporaryDatabase(LAST);
    const beside = await temporaryDatabase(LAST);
    const { destroy, told } = destroyedBy();
    await externally(target.url, { create: printing(beside.url), destroy }, async ({ make }) => {
      expect(await make()).toMatchObject({ isolation: 'same-cluster', database: beside.name });
    });
    expect(told()).toHaveLength(1);
  });

  test.each(['127.0.0.1', 'localhost'])(
    'is refused where it is the target itself, as %s, and nobody is told to remove that',
    async (host) => {
      const target = await temporaryDatabase(LAST);
      const { destroy, told } = destroyedBy();
      const create = `echo '${target.url.replace('127.0.0.1', host)}'`;
      const attempt = externally(target.url, { create, destroy }, ({ make }) => make());
      await expect(attempt).rejects.toThrow('the URL of the target itself');
      expect(told()).toEqual([expect.stringMatching(/^\w{13}$/)]);
    },
  );

  test.each([
    ['echo oops >&2; exit 3', /--clone-create ended with 3:\n {2}oops/],
    ['true', /printed no URL/],
    ['echo not-a-url', /printed no URL of a database/],
  ])('fails with what `%s` said, and the other command is run all the same', async (create, words) => {
    const target = await temporaryDatabase(LAST);
    const { destroy, told } = destroyedBy();
    const attempt = externally(target.url, { create, destroy }, ({ make }) => make());
    await expect(attempt).rejects.toThrow(words);
    expect(told()).toHaveLength(1);
  });

  test('shows no password of what the commands write when they fail', async () => {
    const target = await temporaryDatabase(LAST);
    const create = "echo 'cannot reach postgres://me:hunter22@db/x' >&2; exit 1";
    const attempt = externally(target.url, { create, destroy: 'true' }, ({ make }) => make());
    await expect(attempt).rejects.toThrow('postgres://me:***@db/x');
  });

  test('is removed by a later process where the removal failed', async () => {
    const target = await temporaryDatabase(LAST);
    const beside = await temporaryDatabase(LAST);
    const { destroy, told } = destroyedBy();
    const flag = path.join(state, 'works-now');
    const commands = { create: `echo '${beside.url}'`, destroy: `[ -e ${flag} ] && ${destroy}` };
    const attempt = externally(target.url, commands, async ({ make }) => make());
    await expect(attempt).rejects.toThrow(/not released.*--clone-destroy/);
    expect(await cleanExternals({ kept: false })).toMatchObject({ removed: [], left: [{}] });
    const [file = ''] = entries();
    const entry = JSON.parse(readFileSync(file, 'utf8').trimEnd().split('\n').at(-1) ?? '');
    await writeExternal({ ...entry, owner: { ...entry.owner, started: '1' } });
    expect(await cleanExternals({ kept: false })).toMatchObject({ removed: [], failed: [{}] });
    writeFileSync(flag, '');
    expect(await cleanExternals({ kept: false })).toMatchObject({
      removed: [expect.stringContaining(target.name)],
    });
    expect(told()).toEqual([`${entry.run} ${changedUrl(beside.url, { password: '***' })}`]);
  });

  test('that is kept stays until it is told to go', async () => {
    const { destroy, told } = destroyedBy();
    const owner = { ...(await ourStamp()), started: '1' };
    const run = newRunId();
    const place = { host: 'h', port: '5432', database: 'd' };
    await writeExternal({
      version: 1,
      run,
      destroy,
      folder: state,
      target: place,
      url: '',
      kept: true,
      owner,
    });
    expect(await cleanExternals({ kept: false })).toMatchObject({ removed: [], left: [{}] });
    expect(told()).toEqual([]);
    expect((await cleanExternals({ kept: true })).removed).toHaveLength(1);
    expect(told()).toHaveLength(1);
  });
});
