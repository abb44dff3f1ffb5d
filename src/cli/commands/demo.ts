import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { builtFile } from '../../package.ts';
import { render } from '../../report/render.ts';
import { rehearse } from '../../run.ts';
import { Scope } from '../../scope.ts';
import { startServer } from '../../server/embedded.ts';
import { SHOP } from '../demo/shop.ts';
import { EXIT, exitCodeOfReport } from '../exit-codes.ts';
import { progress } from '../progress.ts';
import type { SignalWatch } from '../signals.ts';
import { styleOf } from '../style.ts';

const MIGRATE = fileURLToPath(builtFile('cli/demo/migrate.js'));

/** A PostgreSQL of its own, a shop with 120,000 rows, and a rehearsal of four migrations; nothing is left of it. */
export async function demoCommand(signals: SignalWatch): Promise<number> {
  const style = styleOf({ stream: process.stderr, env: process.env });
  const say = (text: string) => process.stderr.write(`${text}\n`);
  const scope = new Scope();
  try {
    say('Starting a PostgreSQL 18 of its own, with a small shop in it …');
    const server = await scope.own(
      'demo server',
      () => startServer({ version: 18 }),
      async (started) => started?.stop(),
    );
    const url = server.url.replace(/\/postgres$/, '/shop');
    await fillShop(server.url, url);
    say(`\n$ export DATABASE_URL=postgresql://…@${server.host}:${server.port}/shop`);
    say('$ safemigrate -- node migrate.js\n');
    const display = progress(process.stderr, style);
    const report = await rehearse({
      command: [process.execPath, MIGRATE],
      env: { ...process.env, DATABASE_URL: url },
      emit: display.emit,
      signal: signals.abort,
      interrupts: signals.interrupts,
    });
    display.finish();
    say(`\n${await render(report, 'text', style)}`);
    say('The shop itself was not touched. Now yours:  safemigrate -- <your migration command>');
    const exitCode = exitCodeOfReport(report, signals.received);
    // A migration that is refused, with what it would destroy, is what there is to show.
    return exitCode === EXIT.failed && report.command.exitCode === 0 ? EXIT.passed : exitCode;
  } finally {
    await scope.release();
  }
}

async function fillShop(serverUrl: string, shopUrl: string): Promise<void> {
  await execute(serverUrl, 'CREATE DATABASE shop');
  await execute(shopUrl, SHOP);
}

async function execute(connectionString: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
