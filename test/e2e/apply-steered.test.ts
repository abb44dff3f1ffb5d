import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { newRunId } from '../../src/ownership/run-id.ts';
import { apply } from '../helpers/apply.ts';
import { inTerminal, noTerminal, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { digestOf } from '../helpers/target-state.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18);
});

afterEach(() => target.drop());

const inTarget = async (sql: string) => (await withClient(target.url, (client) => client.query(sql))).rows;

const tables = async () =>
  (await inTarget('SELECT relname AS name FROM pg_stat_user_tables ORDER BY 1')).map(({ name }) => name);

/** A command that says where it is by `say(word)`, and waits there for a line; on the target alone. */
const command = (body: string) =>
  scriptCommand(
    `const client = await connect();
     const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
     const say = async (word) => {
       if (name !== args[0]) return;
       console.error(word);
       await new Promise((resolve) => process.stdin.once('data', resolve));
     };
     ${body}
     await client.end();
     process.stdin.unref();`,
    target.name,
  );

/** The order that another process gives to the run that printed this. */
async function order(what: string, printed: string) {
  return await safemigrate([what, runOf(printed)]);
}

const runOf = (printed: string) =>
  /safemigrate pause\|resume\|abort (\w+)/.exec(printed)?.[1] ?? 'no name was printed';

/** The line of `list` about the run that printed this. */
async function listed(printed: string) {
  const { stdout } = await safemigrate(['list']);
  return stdout.split('\n').find((line) => line.includes(` ${runOf(printed)} to `));
}

const HELD_MS = 400;

describe('from another process', () => {
  test('pause holds back what would begin a transaction, and resume lets it go on', async () => {
    const seen: unknown[] = [];
    const lines: unknown[] = [];
    const run = await apply(
      target.url,
      command(
        `await client.query('CREATE TABLE first (id int)');
         await say('at the line');
         const second = client.query('CREATE TABLE second (id int)');
         await say('second is sent');
         await second;`,
      ),
      {
        typed: [
          [
            /at the line/,
            async (printed) => {
              lines.push(await listed(printed));
              seen.push(await order('pause', printed));
              lines.push(await listed(printed));
              return '\n';
            },
          ],
          [
            /second is sent/,
            async (printed) => {
              // That nothing happens can only be seen by waiting for it.
              await new Promise((resolve) => setTimeout(resolve, HELD_MS));
              seen.push(await tables());
              seen.push(await order('resume', printed), await order('resume', printed));
              lines.push(await listed(printed));
              return '\n';
            },
          ],
        ],
      },
    );
    expect(seen).toMatchObject([
      { exitCode: 0, stdout: 'Paused. The next statement is held.\n' },
      ['first'],
      { exitCode: 0, stdout: 'Resumed.\n' },
      { exitCode: 0, stdout: 'It was not paused.\n' },
    ]);
    const [name] = /(?<=abort )\w+/.exec(run.stderr) ?? [];
    expect(lines).toEqual([
      expect.stringMatching(/: running$/),
      expect.stringMatching(
        new RegExp(`: paused since \\d{4}-\\d\\d-\\d\\d .*\`safemigrate resume ${name}\` lets it continue`),
      ),
      expect.stringMatching(/: running$/),
    ]);
    expect(run.apply, run.stderr).toMatchObject({ outcome: 'applied' });
    expect(run.apply.during?.pausedMs).toBeGreaterThan(HELD_MS);
    expect(await tables()).toEqual(['first', 'second']);
  });

  test('a pause lets an open transaction come to its end', async () => {
    let answer = '';
    const run = await apply(
      target.url,
      command(
        `await client.query('BEGIN');
         await client.query('CREATE TABLE first (id int)');
         await say('in the transaction');
         await client.query('CREATE TABLE second (id int)');
         await client.query('COMMIT');
         await say('it is over');`,
      ),
      {
        typed: [
          [
            /in the transaction/,
            async (printed) => {
              answer = (await order('pause', printed)).stdout;
              return '\n';
            },
          ],
          [/it is over/, (printed) => order('resume', printed).then(() => '\n')],
        ],
      },
    );
    expect(answer).toContain('1 transaction of the command is open');
    expect(run.apply, run.stderr).toMatchObject({ outcome: 'applied' });
  });

  test('abort between two statements ends the command; what was committed stays and is told: exit code 5', async () => {
    let answer = '';
    const run = await apply(
      target.url,
      command(
        `await client.query('CREATE TABLE first (id int)');
         await say('at the line');
         await client.query('CREATE TABLE second (id int)');`,
      ),
      {
        typed: [
          [
            /at the line/,
            async (printed) => {
              answer = (await order('abort', printed)).stdout;
              return '';
            },
          ],
        ],
      },
    );
    expect(answer).toContain('Aborted');
    expect(run.apply, run.stderr).toMatchObject({
      outcome: 'partly',
      committed: [{ sql: 'CREATE TABLE first (id int)', outcome: 'committed' }],
    });
    expect(run.apply.reasons.join()).toContain('safemigrate abort');
    expect(run.exitCode).toBe(5);
    expect(await tables()).toEqual(['first']);
  });

  test('abort lets the statement that runs come to its end, and refuses the next: exit code 4', async () => {
    let answer = '';
    const run = await apply(
      target.url,
      command(
        `await client.query('BEGIN');
         await client.query('CREATE TABLE first (id int)');
         const slept = client.query('SELECT pg_sleep(3)');
         if (name === args[0]) console.error('it sleeps');
         await slept;
         await client.query('CREATE TABLE second (id int)');
         await client.query('COMMIT');`,
      ),
      {
        args: ['--retries', '3'],
        typed: [
          [
            /it sleeps/,
            async (printed) => {
              answer = (await order('abort', printed)).stdout;
              return '';
            },
          ],
        ],
      },
    );
    expect(answer).toContain('the running statement is not interrupted');
    expect(run.apply, run.stderr).toMatchObject({ outcome: 'failed', committed: [] });
    const slept = run.apply.statements.find(({ sql }) => sql.includes('pg_sleep'));
    expect(slept).toMatchObject({ error: null, tag: 'SELECT 1' });
    expect(run.apply.attempts).toHaveLength(1);
    expect(run.exitCode).toBe(4);
    expect(await tables()).toEqual([]);
  });

  test.each(['pause', 'resume', 'abort'])(
    '%s of a run that is not there says so: exit code 2',
    async (what) => {
      const run = newRunId();
      const { exitCode, stderr } = await safemigrate([what, run]);
      expect(stderr).toContain(`No apply ${run} is running here`);
      expect(exitCode).toBe(2);
    },
  );
});

describe.skipIf(skipReason(noTerminal))('the question on a terminal', () => {
  const MIGRATION = sqlCommand('CREATE TABLE made (id int)');
  const answered = (answer: string) =>
    inTerminal(['apply', '--', ...MIGRATION], {
      env: { DATABASE_URL: target.url },
      typed: [[/Go on\? \[y\/N\]/, answer]],
    });

  test.each(['y\n', 'Yes\n'])('is answered by %j: the command runs on the target', async (answer) => {
    const { output, exitCode } = await answered(answer);
    expect(output).toContain(`Now the command runs on ${target.name}`);
    // What was rehearsed is shown before the question.
    expect(output.indexOf('PASSED')).toBeLessThan(output.indexOf('Go on?'));
    expect(output).toContain('APPLIED');
    expect(exitCode).toBe(0);
    expect(await tables()).toEqual(['made']);
  });

  test.each(['n\n', '\n'])('is answered by %j: the target is not touched: exit code 4', async (answer) => {
    const before = await digestOf(target.url);
    const { output, exitCode } = await answered(answer);
    expect(output).toContain('NOT APPLIED');
    expect(output).toContain('it was not confirmed');
    expect(exitCode).toBe(4);
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('Ctrl-C in the place of an answer leaves the target alone', async () => {
    const before = await digestOf(target.url);
    const { exitCode } = await answered('\u0003');
    expect(exitCode).not.toBe(0);
    expect(await digestOf(target.url)).toEqual(before);
  });
});
