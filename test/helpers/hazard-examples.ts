import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { rehearse } from '../../src/index.ts';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Report } from '../../src/model/report.ts';
import { plainEnvironment } from './cli.ts';
import { temporaryDatabase, withClient } from './database.ts';
import { serverUrl, shareOf, useOwnServers, VERSIONS } from './servers.ts';

const COMMAND = fileURLToPath(new URL('./commands/run-sql-files.mjs', import.meta.url));

export interface HazardExample {
  readonly what: string;
  readonly setup: string;
  readonly sql: string;
  /** A code that is told as a warning or an error; missing: no warning is told. */
  readonly told?: string;
  /** A code that is not told; others may be. */
  readonly never?: string;
  /** Major version of PostgreSQL from which it can be met. */
  readonly from?: number;
}

/** The schema of the session with this number. */
export const schemaOf = (index: number) => `tried_${index}_`;

/**
 * Rehearses texts as sessions of one command, each in a schema of its own, which `:schema` in the texts stands for.
 * @param before is run in the database before all setups
 */
export async function rehearseInSchemas(
  version: ServerVersion,
  sessions: readonly { readonly setup: string; readonly sql: string }[],
  { method = 'template', before = '' }: { method?: 'template' | 'cluster'; before?: string } = {},
): Promise<Report> {
  const folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-tried-'));
  const database = await temporaryDatabase(version, { sql: before });
  const files = sessions.map(({ sql }, index) => {
    const file = path.join(folder, `${index}.sql`);
    writeFileSync(file, sql.replaceAll(':schema', schemaOf(index)));
    return { schema: schemaOf(index), file };
  });
  await withClient(database.url, async (client) => {
    for (const [index, { setup }] of sessions.entries())
      await client.query(
        `CREATE SCHEMA ${schemaOf(index)}; SET search_path = ${schemaOf(index)}; ${setup.replaceAll(':schema', schemaOf(index))}`,
      );
  });
  const report = await rehearse({
    command: [process.execPath, COMMAND, JSON.stringify(files)],
    env: { ...plainEnvironment(), DATABASE_URL: database.url },
    folder,
    clone: { method },
    checks: { queries: 'off' },
  });
  await database.drop();
  rmSync(folder, { recursive: true });
  return report;
}

/** The statements of one session. */
export function statementsOf({ statements }: Report, index: number): Report['statements'] {
  const entering = statements.find(({ sql }) => sql === `SET search_path = ${schemaOf(index)}`);
  return statements.filter(({ session }) => session === entering?.session);
}

/**
 * Rehearses examples on PostgreSQL 18, and a share of them on 14, as sessions of one command, each in a schema of its own, `:schema`. The role `tried_app` may
 * log in. Each example is a test.
 * @param method of the clone: only a cluster takes statements about roles.
 */
export function testHazardExamples(
  examples: readonly HazardExample[],
  method: 'template' | 'cluster' = 'template',
): void {
  describe.each(VERSIONS.filter((version) => version === 18 || version === 14))(
    'on PostgreSQL %i',
    (version) => {
      let report: Report;
      const tried = shareOf(version, examples);

      beforeAll(async () => {
        await useOwnServers(version);
        await withClient(serverUrl(version), (client) => client.query('CREATE ROLE tried_app LOGIN'));
        report = await rehearseInSchemas(
          version,
          tried.map(({ setup, sql, from = 0 }) => ({ setup, sql: from > version ? '' : sql })),
          { method },
        );
      }, 600_000);

      const numbered = tried.map((example, index) => ({ ...example, index }));
      test.each(numbered.filter(({ from = 0 }) => version >= from))('$what', ({ index, told, never }) => {
        const { grave, failed } = ofExample(report, index);
        expect(failed).toEqual([]);
        const codes = grave.map(({ code }) => code);
        if (never !== undefined) expect(codes, JSON.stringify(grave)).not.toContain(never);
        else
          expect(codes, JSON.stringify(grave)).toEqual(
            told === undefined ? [] : expect.arrayContaining([told]),
          );
      });
    },
  );
}

/** What belongs to the session of an example, or to a relation in its schema. */
function ofExample(report: Report, index: number) {
  const schema = schemaOf(index);
  const statements = statementsOf(report, index);
  const numbers = new Set(statements.map((each) => each.index));
  return {
    failed: statements.flatMap(({ error }) => error?.message ?? []),
    // Examples with the same statements are told apart by the relation.
    grave: report.hazards.filter(({ severity, statement, relation, message }) => {
      const isOwn =
        statement === null || relation?.startsWith('tried_')
          ? `${relation} ${message}`.includes(schema)
          : numbers.has(statement);
      return severity !== 'notice' && isOwn;
    }),
  };
}
