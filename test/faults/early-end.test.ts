import { expect, test } from 'vitest';
import { measured } from '../../src/measured.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { accountedFor } from '../../src/proof/lost-connection.ts';
import { readTargetState } from '../../src/proof/target-state.ts';
import { Stop } from '../../src/stop.ts';
import { withClient } from '../helpers/client.ts';
import { withCloning } from '../helpers/cloning.ts';
import { isRunning, until } from '../helpers/cutting.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { pending } from '../helpers/pending.ts';
import { useOwnServers } from '../helpers/servers.ts';

await useOwnServers(18);

const READING = 'SELECT pg_sleep(60)';

/** A part of the report is being read after a command that has sent `sql` to the target, when the run is ended. */
async function endRun(by: 'terminate' | 'interrupt', sql: string | undefined): Promise<unknown> {
  const { url } = await temporaryDatabase(18);
  return withCloning(url, {}, async ({ context }) => {
    const { run, audit, control, target } = context;
    const before = await readTargetState({ target, run, audit, control });
    const outer = new AbortController();
    const stop = new Stop(outer.signal);
    const session = await openSession(target.settings, {
      run,
      audit,
      purpose: 'clone',
      signal: stop.signal,
    });
    const work = async () => {
      if (sql !== undefined) await withClient(url, (client) => client.query(sql));
      const read = pending(measured([], 'data', () => session.query(READING)));
      await withClient(url, async (client) => {
        await until('it is read', () => isRunning(client, READING));
        if (by === 'interrupt') outer.abort();
        else await client.query('SELECT pg_terminate_backend($1)', [session.pid]);
      });
      await read;
    };
    const ended = await accountedFor(stop, { target, run, audit }, before, work).catch((error) => error);
    await session.close();
    stop.end();
    return ended;
  });
}

test.each([
  ['terminate', 'LOST'],
  ['interrupt', 'INTERRUPTED'],
] as const)('the target is accounted for if the run is ended after the command: %s', async (by, code) => {
  expect(await endRun(by, undefined)).toMatchObject({
    code,
    message: expect.stringContaining('The target is as it was before.'),
  });
  expect(await endRun(by, 'CREATE TABLE made ()')).toMatchObject({
    code: 'TARGET_CHANGED',
    message: expect.stringMatching(/the target changed:.*pg_class/s),
  });
});
