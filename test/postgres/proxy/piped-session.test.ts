import { expect, test } from 'vitest';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { withProxy } from '../../helpers/proxy.ts';

test('without observation, statements, errors, and large values come through as they are', async () => {
  const database = await temporaryDatabase(18, { sql: 'create table t (id int, v text)' });
  await withProxy(database.url, { observe: 'off' }, async ({ url, events, proxy }) => {
    await withClient(url, async (client) => {
      const text = 'x'.repeat(20_000_000);
      await client.query('insert into t values ($1, $2)', [1, text]);
      await expect(client.query('select 1/0')).rejects.toMatchObject({ code: '22012' });
      const { rows } = await client.query('select id, v from t');
      expect(rows[0].v === text).toBe(true);
    });
    expect(events).toEqual([]);
    expect(proxy.sessions).toBe(1);
  });
});

test('a gate that may refuse something is asked, though nothing is observed', async () => {
  const database = await temporaryDatabase(18);
  const gate = { before: () => ({ sqlstate: '42501', message: 'not here' }) };
  await withProxy(database.url, { observe: 'off', gate }, ({ url }) =>
    withClient(url, (client) =>
      expect(client.query('alter system set work_mem to 1')).rejects.toMatchObject({ code: '42501' }),
    ),
  );
});
