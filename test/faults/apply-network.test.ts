import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import type { ApplySection } from '../../src/model/report.ts';
import { type CliOptions, PROGRAM, runProgram } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { makeNetwork, type Network, networkObstacle } from '../helpers/network.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { type Relay, startRelay } from '../helpers/relay.ts';
import { skipReason } from '../helpers/requirements.ts';
import { withDatabase } from '../helpers/target-state.ts';

/** From the cut to the report: what is noticed, closed, looked for and given up, each within its own limit. */
const REPORTED_WITHIN_MS = 300_000;

describe.skipIf(skipReason(networkObstacle()))('an apply whose network is cut', () => {
  let server: Server;
  let network: Network;
  let relay: Relay;

  beforeAll(async () => {
    server = await ownServer(18);
    network = makeNetwork();
  });

  afterAll(async () => {
    network?.remove();
    await server?.stop();
  });

  beforeEach(async () => {
    await withClient(server.url, async (client) => {
      await client.query('DROP DATABASE IF EXISTS shop WITH (FORCE)');
      await client.query('CREATE DATABASE shop');
    });
    relay = await startRelay(server.url, () => 'forward', network.address);
    return () => relay.close();
  });

  const tables = () =>
    withClient(withDatabase(server.url, 'shop'), async (client) => {
      const { rows } = await client.query<{ name: string }>(
        'SELECT relname AS name FROM pg_stat_user_tables',
      );
      return rows.map(({ name }) => name);
    });

  /** On the target it waits for a line before its COMMIT, and says when it is told to end. */
  const migration = scriptCommand(
    `process.on('SIGTERM', () => {
       console.error('told to end');
       setTimeout(() => process.exit(9), 100);
     });
     const client = await connect();
     client.on('error', () => {});
     const { rows: [{ name }] } = await client.query('SELECT current_database() AS name');
     await client.query('BEGIN');
     await client.query('CREATE TABLE made (id int)');
     if (name === 'shop') {
       console.error('it waits');
       await new Promise((resolve) => process.stdin.once('data', resolve));
     }
     await client.query('COMMIT');
     await client.end();
     process.stdin.unref();`,
  );

  async function applyInside(
    typed: NonNullable<CliOptions['typed']>,
    ...options: string[]
  ): Promise<{ exitCode: number | null; stderr: string; apply: ApplySection }> {
    const url = new URL(withDatabase(server.url, 'shop'));
    url.hostname = network.address;
    url.port = String(relay.port);
    url.searchParams.set('sslmode', 'disable');
    url.searchParams.set('connect_timeout', '2');
    const words = ['apply', '--yes', '--format', 'json', '--clone', 'template', ...options];
    const result = await runProgram([...network.inside, ...PROGRAM, ...words, '--', ...migration], {
      env: { DATABASE_URL: url.href },
      typed,
    });
    expect(result.stdout, result.stderr).toMatch(/^\{/);
    const { apply } = readReport(result.stdout);
    if (apply === null) throw new Error(`nothing was applied:\n${result.stderr}`);
    return { exitCode: result.exitCode, stderr: result.stderr, apply };
  }

  test(
    'before its COMMIT and for good ends in its time, and says what is not known: exit code 5',
    async () => {
      const run = await applyInside([
        [
          /it waits/,
          async () => {
            network.cut();
            return '\n';
          },
        ],
      ]);
      network.restore();
      expect(run.apply, run.stderr).toMatchObject({
        outcome: 'partly',
        rolledBack: [],
        schemaEqual: null,
      });
      const sent = run.apply.committed.find(({ sql }) => sql === 'CREATE TABLE made (id int)');
      expect(sent?.outcome).toBe('unknown');
      expect(run.apply.reasons.join()).toContain('The connection to the server was lost during the run');
      expect(run.apply.reasons.join()).toContain('could not be read');
      expect(run.apply.reasons.join()).toContain('not known whether this stayed: CREATE TABLE made (id int)');
      expect(run.exitCode).toBe(5);
      await relay.close();
      // The COMMIT must not arrive once the network is there again.
      expect(await tables()).toEqual([]);
    },
    REPORTED_WITHIN_MS,
  );

  test(
    'and comes back says what the target has',
    async () => {
      const run = await applyInside(
        [
          [
            /it waits/,
            async () => {
              network.cut();
              return '\n';
            },
          ],
          [
            /told to end/,
            async () => {
              network.restore();
              return '';
            },
          ],
        ],
        '--timeout',
        '4s',
      );
      const made = (await tables()).includes('made');
      expect(run.apply.outcome, run.stderr).toBe(made ? 'partly' : 'failed');
      expect(run.apply.committed).toMatchObject(made ? [{ outcome: 'committed' }] : []);
      expect(run.apply.rolledBack).toHaveLength(made ? 0 : 1);
      expect(run.exitCode).toBe(made ? 5 : 4);
    },
    REPORTED_WITHIN_MS,
  );
});
