import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../src/model/report.ts';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

/** Planted below, each in one place; none may be in anything that is printed or written. */
const passwords: string[] = [];
function password(): string {
  passwords.push(`Pw${passwords.length}Hunter7Qx`);
  return passwords.at(-1) ?? '';
}

/** The same for what `--redact` takes out: literals, values of rows, names of hosts. */
const values: string[] = [];
function value(text: string): string {
  values.push(text);
  return text;
}

const HOST = value('planted-host-7qx.example');
const OTHER_HOST = value('other-host-7qx.example');
const ROW = value('row-value-7qx');

const SETUP = `
CREATE TABLE people (id int, email text UNIQUE);
INSERT INTO people VALUES (1, '${ROW}'), (2, '${ROW.toUpperCase()}');
CREATE VIEW planted_view AS SELECT id FROM people WHERE email <> '${value('lit-view-7Qx')}';
CREATE FUNCTION planted_function() RETURNS void LANGUAGE plpgsql AS
  $f$ BEGIN PERFORM dblink_connect('host=h user=u password=${password()}'); END $f$;
CREATE FOREIGN DATA WRAPPER planted_wrapper;
CREATE SERVER planted_server FOREIGN DATA WRAPPER planted_wrapper OPTIONS (host '${OTHER_HOST}', secret_key '${password()}');
CREATE FOREIGN TABLE planted_there (id int) SERVER planted_server OPTIONS (api_key '${password()}');
CREATE TYPE planted_kind AS ENUM ('${value('lit-kind-7Qx')}');
CREATE TABLE planted_gone (note text DEFAULT '${value('lit-before-7Qx')}' CHECK (note <> '${value('lit-held-7Qx')}'));
CREATE POLICY planted_policy ON people USING (email = '${value('lit-policy-7Qx')}');
COMMENT ON COLUMN people.email IS '${value('lit-comment-7Qx')}';
CREATE USER MAPPING FOR CURRENT_USER SERVER planted_server OPTIONS (user 'u', password '${password()}')`;

/** Many fail, and each is one of the ways in which a secret gets into a report. */
const STATEMENTS = [
  `CREATE ROLE planted_role LOGIN PASSWORD '${password()}'`,
  `CREATE ROLE planted_role LOGIN PASSWORD ${password()}`,
  `ALTER ROLE planted_role /* new */ PASSWORD U&'${password()}' VALID UNTIL 'infinity'`,
  `ALTER ROLE planted_role PASSWORD $p$${password()}$p$`,
  `CREATE SUBSCRIPTION s CONNECTION 'host=${OTHER_HOST} password=${password()}' PUBLICATION p WITH (connect = false)`,
  `DROP FUNCTION planted_function()`,
  `DROP USER MAPPING FOR CURRENT_USER SERVER planted_server`,
  `CREATE USER MAPPING FOR PUBLIC SERVER planted_server
     OPTIONS (user 'u', password '${password()}', "sslpassword" '${password()}')`,
  `SELECT dblink_connect('host=${OTHER_HOST} user=u password=''${password()}''')`,
  `SELECT dblink('postgresql://u:${password()}@${OTHER_HOST}/d', 'SELECT 1')`,
  `CREATE FUNCTION planted_again() RETURNS void LANGUAGE plpgsql AS
     $f$ BEGIN PERFORM dblink_connect('host=h password=${password()}'); END $f$`,
  `DO $$ BEGIN EXECUTE 'CREATE ROLE planted_role PASSWORD ''${password()}'' NONSENSE'; END $$`,
  `SET application_name = '${value('lit-application-7Qx')}'`,
  `INSERT INTO people VALUES (3, '${value('lit-insert-7Qx')}') -- ${value('comment of 7Qx')}`,
  `/* ${value('another comment of 7Qx')} */ UPDATE people SET email = '${value('lit-update-7Qx')}' WHERE id = ${value('9876543')}`,
  `UPDATE people SET email = lower(email)`,
  `DO $$ DECLARE v text; BEGIN SELECT email INTO v FROM people WHERE id = 1; RAISE EXCEPTION 'no %', v USING HINT = v; END $$`,
  `SELECT '${value('lit-cast-7Qx')}'::int`,
  `SELECT '${value('lit-open-7Qx')}`,
  `ALTER TABLE people ADD note text DEFAULT '${value('lit-default-7Qx')}'`,
  `ALTER TABLE people ADD CONSTRAINT few CHECK (id < ${value('87654321')})`,
  `DROP VIEW planted_view`,
  `DROP TABLE planted_gone`,
  `ALTER SERVER planted_server OPTIONS (SET host 'h')`,
  `ALTER FOREIGN TABLE planted_there ADD note text DEFAULT '${value('lit-there-7Qx')}'`,
  `ALTER TYPE planted_kind ADD VALUE '${value('lit-new-kind-7Qx')}'`,
  `ALTER POLICY planted_policy ON people USING (email <> '${value('lit-new-policy-7Qx')}')`,
  `COMMENT ON COLUMN people.email IS '${value('lit-new-comment-7Qx')}'`,
  `CREATE TRIGGER planted_trigger AFTER UPDATE ON people EXECUTE FUNCTION
     suppress_redundant_updates_trigger('${value('lit-trigger-7Qx')}')`,
];

const SCRIPT = `
  const client = await connect();
  for (const sql of JSON.parse(process.env.PLANTED_SQL)) await client.query(sql).catch(() => {});
  const copy = new pg.Query('COPY people FROM STDIN');
  copy.handleCopyInResponse = (connection) => {
    connection.sendCopyFromChunk(Buffer.from(process.env.PLANTED_LINE + '\\tx\\n'));
    connection.endCopyFrom();
  };
  await new Promise((resolve) => { copy.callback = resolve; client.query(copy); });
  await client.end();`;

const LINE = value('copy-line-7Qx');
const QUERY = `SELECT id FROM planted_view WHERE id::text <> '${value('lit-query-7Qx')}'`;
const COMMAND = [
  ...scriptCommand(SCRIPT),
  `--password=${password()}`,
  `--db-host=${HOST}`,
  '-h',
  OTHER_HOST,
  `ALTER ROLE planted_role PASSWORD $p$${password()}$p$`,
  `UPDATE people SET email = $$${value('lit-argument-7Qx')}$$`,
];

let url: string;
/** The same without the planted name of the host. */
let directUrl: string;

beforeAll(() => useOwnServers(18));
beforeAll(async () => {
  const target = await temporaryDatabase(18, { sql: SETUP });
  passwords.push(new URL(target.url).password);
  const named = new URL(target.url);
  named.searchParams.set('hostaddr', named.hostname);
  named.hostname = HOST;
  url = named.href;
  directUrl = target.url;
});

const REPORTS = ['json', 'txt', 'md', 'html', 'xml', 'sarif'].map((ending) => `report.${ending}`);

/** Everything that the run printed and wrote, by name. */
async function everything(
  options: readonly string[],
  statements = STATEMENTS,
): Promise<Record<string, string>> {
  const folder = temporaryFolder();
  writeFileSync(path.join(folder, 'queries.sql'), `${QUERY};\n`);
  const args = [
    ...options,
    ...REPORTS.flatMap((file) => ['--report', file]),
    ...['--receipt', 'receipt.json', '--audit', 'audit', '--queries', 'queries.sql'],
    ...['--check', `SELECT email FROM people WHERE email <> '${value('lit-check-7Qx')}'`],
    ...['--down', `: '${value('lit-down-7Qx')}'; false`],
  ];
  const { stdout, stderr } = await safemigrate([...args, '--', ...COMMAND], {
    env: {
      DATABASE_URL: url,
      PLANTED_SQL: JSON.stringify(statements),
      PLANTED_LINE: LINE,
      PLANTED_TOKEN: password(),
      OTHER_URL: `postgresql://u:${password()}@${OTHER_HOST}:5432/other`,
      XDG_STATE_HOME: path.join(folder, 'state'),
    },
    folder,
  });
  const runs = path.join(folder, 'state', 'safemigrate', 'runs');
  const files = [...REPORTS, 'receipt.json', 'audit'].map((name) => path.join(folder, name));
  const [history = ''] = readdirSync(runs);
  return {
    terminal: stdout + stderr,
    history: readFileSync(path.join(runs, history), 'utf8'),
    ...Object.fromEntries(files.map((file) => [path.basename(file), readFileSync(file, 'utf8')])),
  };
}

/** `text in report.md`, for each that is found. */
function found(
  texts: readonly string[],
  outputs: Record<string, string>,
  names = Object.keys(outputs),
): string[] {
  return names.flatMap((name) =>
    [...new Set(texts)].filter((text) => outputs[name]?.includes(text)).map((text) => `${text} in ${name}`),
  );
}

/** The definitions before and after. */
function objectsIn(report = ''): string {
  const { schema } = JSON.parse(report) as Report;
  return (schema?.objects ?? []).map(({ before, after }) => `${before}\n${after}`).join('\n');
}

describe('of secrets that are planted everywhere', () => {
  test('passwords are in nothing that is printed or written, and what leaves the house has no values', async () => {
    const outputs = await everything([]);
    expect(Object.keys(outputs)).toHaveLength(REPORTS.length + 4);
    expect(outputs['report.json']).toContain('lit-insert-7Qx');
    // Definitions of what was there before stand in no statement.
    const shown = objectsIn(outputs['report.json']);
    for (const text of [
      'lit-before-7Qx',
      'lit-kind-7Qx',
      'lit-policy-7Qx',
      'lit-view-7Qx',
      'lit-trigger-7Qx',
    ])
      expect(shown).toContain(text);
    expect(shown).toContain("secret_key '…'");
    expect(outputs['report.html']).toContain('? /* another */');
    expect(found(passwords, outputs)).toEqual([]);
    expect(found(values, outputs, ['report.md', 'report.html', 'report.sarif'])).toEqual([]);
  });

  test('--redact leaves no literal, no value and no host anywhere but in the receipt', async () => {
    const slow = `SELECT pg_sleep(4), '${value('lit-slow-7Qx')}'`;
    const outputs = await everything(['--redact'], [...STATEMENTS, slow]);
    expect(outputs.terminal).toContain('SELECT pg_sleep(?), ? has been running for');
    expect(outputs['report.json']).toContain('INSERT INTO people VALUES (?, ?)');
    expect(found(passwords, outputs)).toEqual([]);
    expect(objectsIn(outputs['report.json'])).toContain('DEFAULT ?');
    const { 'receipt.json': _receipt, audit: _audit, ...others } = outputs;
    expect(found(values, others)).toEqual([]);
  });

  test('--no-redact shows literals, values and hosts, and still no password', async () => {
    const outputs = await everything(['--no-redact']);
    expect(found(passwords, outputs)).toEqual([]);
    expect(found([HOST, ROW, LINE, 'lit-default-7Qx'], outputs, ['report.html'])).toHaveLength(4);
    expect(found(['lit-default-7Qx'], outputs, ['report.md'])).toHaveLength(1);
    expect(found(['lit-before-7Qx', 'lit-new-kind-7Qx'], outputs, ['report.html'])).toHaveLength(2);
  });

  test('an apply with --redact tells none either, with and without a redacted receipt', async () => {
    const literal = 'lit-applied-7Qx';
    const statements = (table: string) => [
      `CREATE TABLE ${table} (note text DEFAULT '${literal}')`,
      `INSERT INTO ${table} VALUES ('${literal}')`,
    ];
    const folder = temporaryFolder();
    const run = async (options: readonly string[], table: string) => {
      const args = [...options, '--redact', '--report', 'report.json', '--report', 'report.html'];
      const { exitCode, stdout, stderr } = await safemigrate([...args, '--', ...scriptCommand(SCRIPT)], {
        env: { DATABASE_URL: url, PLANTED_SQL: JSON.stringify(statements(table)), PLANTED_LINE: '4' },
        folder,
      });
      const files = ['report.json', 'report.html'].map((name) =>
        readFileSync(path.join(folder, name), 'utf8'),
      );
      expect(found([literal, HOST], { terminal: stdout + stderr, reports: files.join('\n') })).toEqual([]);
      return { exitCode, stderr, report: JSON.parse(files[0] ?? '') };
    };
    const applied = await run(['apply', '--yes'], 'applied_at_once');
    expect(applied.exitCode, applied.stderr).toBe(0);
    expect(applied.report.apply.committed.map(({ sql }: { sql: string }) => sql)).toContain(
      'INSERT INTO applied_at_once VALUES (?)',
    );
    const receipt = ['--receipt', 'receipt.json'];
    // Else the same row would be copied a second time.
    await withClient(directUrl, (client) => client.query(`DELETE FROM people WHERE email = 'x'`));
    const rehearsed = await run(receipt, 'applied_later');
    expect(rehearsed.exitCode, rehearsed.stderr).toBe(0);
    expect(
      found([literal], {
        receipt: JSON.stringify(
          JSON.parse(readFileSync(path.join(folder, 'receipt.json'), 'utf8')).report.statements,
        ),
      }),
    ).toEqual([]);
    const later = await run(['apply', '--yes', ...receipt], 'applied_later');
    expect(later.exitCode, later.stderr).toBe(0);
    expect(later.report.apply).toMatchObject({ outcome: 'applied', schemaEqual: true });
  });
});
