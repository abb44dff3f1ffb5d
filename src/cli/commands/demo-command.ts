import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { rehearse } from '../../index.ts';
import { startServer } from '../../local-server/embedded.ts';
import { makeWorkFolder } from '../../local-server/folder-cleaner.ts';
import type { Report } from '../../model/report.ts';
import { wordsOfProgram } from '../../package.ts';
import { proposalView } from '../../report/sections/proposal-view.ts';
import { viewText } from '../../report/view/text-view.ts';
import { Scope } from '../../scope.ts';
import { LAST_SAFE, MIGRATIONS, SHOP } from '../demo/shop.ts';
import { EXIT, exitCodeOfReport } from '../exit-codes.ts';
import { DEMO_SETTINGS } from '../options/subcommand-settings.ts';
import { progress } from '../progress.ts';
import { checkWritable, printReport, writeFiles } from '../publish.ts';
import { gatherOptions } from '../read-options.ts';
import type { SignalWatch } from '../signals.ts';
import { styleOf } from '../style.ts';

const SAFER = 'safer.sql';

interface DemoProject {
  readonly url: string;
  readonly folder: string;
  /** Words that start its migration tool. */
  readonly tool: readonly string[];
}

/**
 * Starts a private PostgreSQL with a shop of 120,000 rows, and rehearses on it: migrations that pass, one that is stopped, and a safer
 * form of the first ones. Nothing is left behind. @returns 0 if all went as it should.
 */
export async function demoCommand(flags: Record<string, unknown>, signals: SignalWatch): Promise<number> {
  const options = await gatherOptions(DEMO_SETTINGS, flags);
  for (const file of options.report ?? []) checkWritable(file);
  const style = styleOf(process.stderr);
  const scope = new Scope();
  try {
    say('Starting a PostgreSQL 18 of its own, with a small shop in it …');
    const { server, folder } = await scope.own('demo server', startDemoServer, async (started) =>
      started?.server.stop(),
    );
    const url = server.url.replace(/\/postgres$/, '/shop');
    await fillShop(server.url, url);
    const project = makeProject(folder, url);

    say('\nFirst three migrations that pass, and what is worth knowing before they run on production:');
    say(`\n$ export DATABASE_URL=postgresql://…@${server.host}:${server.port}/shop`);
    const passed = await rehearsal(['--to', LAST_SAFE], project, signals);
    const out = await writeFiles(passed, options);
    for (const problem of out.problems) say(`safemigrate: ${problem}`);
    await printReport(out.forFormat, {}, process.stderr);
    const exitCode = exitCodeOfReport(passed, signals.received);
    if (exitCode !== EXIT.passed) return exitCode;

    say('\nThen one more, which drops a column that is full of values: it is stopped.\n');
    const stopped = await rehearsal([], project, signals);
    await printReport(() => stopped, {}, process.stderr);
    const stoppedWith = exitCodeOfReport(stopped, signals.received);
    if (stoppedWith !== EXIT.failed || stopped.command.exitCode !== 0) return stoppedWith;
    say('\nA pipeline would end here, with exit code 1.');

    say('\nLast the first three once more, in a form that blocks others less: a second clone proves it.\n');
    const safer = await rehearsal(['--to', LAST_SAFE], project, signals, path.join(folder, SAFER));
    for (const lines of viewText(proposalView(safer), style)) say(['', ...lines].join('\n'));
    if (safer.proposal?.outcome !== 'proved') return EXIT.failed;
    say('\nThe shop itself was touched by none of them.');
    say('Now yours:  safemigrate -- <your migration command>');
    return EXIT.passed;
  } finally {
    await scope.release();
  }
}

/** Its folder goes with it. */
async function startDemoServer() {
  const place = await makeWorkFolder(tmpdir(), 'server', 'the demo');
  return { server: await startServer({ version: 18, place }), folder: place.folder };
}

/** Writes the migrations where a project would have them, with the tool beside them. */
function makeProject(parent: string, url: string): DemoProject {
  const folder = path.join(parent, 'project');
  mkdirSync(path.join(folder, 'migrations'), { recursive: true });
  for (const [name, text] of Object.entries(MIGRATIONS))
    writeFileSync(path.join(folder, 'migrations', `${name}.sql`), text);
  const [program, ...words] = wordsOfProgram('cli/demo/migrate');
  const [file = ''] = words;
  if (!path.isAbsolute(file)) return { url, folder, tool: [program, ...words] };
  symlinkSync(file, path.join(folder, path.basename(file)));
  return { url, folder, tool: [program, path.basename(file)] };
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function rehearsal(
  words: readonly string[],
  { url, folder, tool }: DemoProject,
  signals: SignalWatch,
  propose?: string,
): Promise<Report> {
  const asked = propose === undefined ? '' : `--propose ${SAFER} `;
  const command = [...tool, ...words];
  say(`$ safemigrate ${asked}-- ${[path.basename(process.execPath), ...command.slice(1)].join(' ')}\n`);
  const display = progress(process.stderr);
  try {
    return await rehearse({
      command,
      folder,
      env: { ...process.env, DATABASE_URL: url },
      emit: display.emit,
      signal: signals.abort,
      interrupts: signals.interrupts,
      ...(propose === undefined ? {} : { propose }),
    });
  } finally {
    display.finish();
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
