import { describe, expect, test } from 'vitest';
import { inBlock } from '../../../src/postgres/sql/classify-statement.ts';
import { parseText } from '../../../src/postgres/sql/parse.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { STATEMENT_CORPUS } from '../../helpers/statement-corpus.ts';
import { DDL, DDL_SETUP } from './ddl-corpus.ts';

const ACTIVE_SQL_TRANSACTION = '25001';

/** COPY would wait for data; the others would end the block, or are about one. */
const NOT_TRIED =
  /^(?:copy t from|begin|start|commit$|commit and|end|rollback$|rollback and|abort|prepare transaction)/;

describe.each([14, 18] as const)('on PostgreSQL %s', (version) => {
  test('the server refuses in a transaction block what the table says it does, and nothing that it calls the same', async () => {
    const database = await temporaryDatabase(version, { sql: DDL_SETUP });
    const disagreements: unknown[] = [];
    await withClient(database.url, async (client) => {
      for (const sql of [...STATEMENT_CORPUS, ...DDL]) {
        if (NOT_TRIED.test(sql)) continue;
        const [statement] = (await parseText(Buffer.from(sql))) ?? [];
        if (!statement) throw new Error(`no statement: ${sql}`);
        await client.query('begin');
        const sqlstate = await client.query(sql).then(
          () => undefined,
          (error: { code?: string }) => error.code,
        );
        await client.query('rollback');
        const refused = sqlstate === ACTIVE_SQL_TRANSACTION;
        if (refused !== (inBlock(statement.node) === 'refused')) disagreements.push({ sql, sqlstate });
      }
    });
    await database.drop();
    expect(disagreements).toEqual([]);
  });
});
