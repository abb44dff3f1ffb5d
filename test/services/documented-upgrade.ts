import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { runLine, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { codeBlocksOf } from '../helpers/documented-commands.ts';
import type { FakeService } from '../helpers/fake-service.ts';
import { readReport } from '../helpers/read-report.ts';

const PAGE = readFileSync(new URL('../../docs/upgrade.md', import.meta.url), 'utf8');
/** Two services of AWS, and the rehearsal on what they have upgraded. */
const [RDS = '', AURORA = '', REHEARSAL = ''] = codeBlocksOf(
  PAGE.slice(PAGE.indexOf('## At a hosted service'), PAGE.indexOf('## What it cannot tell')),
).map(({ text }) => text.trimEnd());

/** Has AWS upgrade a clone by the commands of the page, and rehearses on it. */
export async function upgradeAsDocumented(fake: FakeService, service: 'rds' | 'aurora') {
  const folder = temporaryFolder();
  const steps = service === 'rds' ? RDS : AURORA;
  const aws = await runLine(`set -e\n${steps}`, { env: { AWS_DEFAULT_REGION: 'eu-west-1' } });
  expect(aws.exitCode, aws.stderr).toBe(0);
  const clone = fake.things.find(({ name }) => name === 'shop-18');
  writeFileSync(path.join(folder, 'checks.sql'), 'SELECT count(*) FROM items;');
  const migration = sqlCommand('ALTER TABLE items ADD COLUMN name text').map((word) => `'${word}'`);
  const line = REHEARSAL.replace('npx prisma migrate deploy', migration.join(' '))
    // No server of the tests has this library loaded.
    .replace(' --queries pg_stat_statements', '');
  const report = path.join(folder, 'report.json');
  const env = { UPGRADED_URL: clone?.database?.url, SAFEMIGRATE_REPORT: report };
  const { exitCode, stderr } = await runLine(line, { folder, env });
  expect(exitCode, stderr).toBe(0);
  return readReport(readFileSync(report, 'utf8'));
}
