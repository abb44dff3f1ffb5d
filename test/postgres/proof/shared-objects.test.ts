import { describe, expect, test } from 'vitest';
import { ownedName } from '../../../src/ownership/mark.ts';
import { newRunId } from '../../../src/ownership/run-id.ts';
import { identifier } from '../../../src/postgres/sql/quote.ts';
import { compareShared } from '../../../src/proof/shared-changes.ts';
import { sharedCatalogues } from '../../../src/proof/shared-objects.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

describe.each(VERSIONS)('on %d', (version) => {
  test('changes for the whole cluster are reported exactly', async () => {
    const { session, drop } = await scratch(version);
    const role = `shared_${process.pid}`;
    const [target] = await session.query<{ oid: number; name: string }>(
      'SELECT oid, datname AS name FROM pg_database WHERE datname = current_database()',
    );
    const [oid, database] = [target?.oid ?? 0, target?.name ?? ''];
    const [who] = await session.query<{ name: string }>('SELECT current_user AS name');
    const user = who?.name;
    const own = ownedName('app', 'clone', newRunId());
    const steps: [string, string[]][] = [
      [`CREATE ROLE ${role}`, [`role ${role} created`]],
      [`ALTER ROLE ${role} CREATEDB`, [`role ${role}: rolcreatedb false → true`]],
      [`ALTER ROLE ${role} PASSWORD 'secret'`, [`role ${role}: password changed, or set again`]],
      [`ALTER ROLE ${role} SET work_mem = '5MB'`, [`role ${role}: settings none → work_mem=5MB`]],
      [
        `ALTER ROLE ${role} IN DATABASE ${database} SET work_mem = '6MB'`,
        [`settings of ${role} in database ${database} created`],
      ],
      [`ALTER DATABASE ${database} CONNECTION LIMIT 7`, [`database ${database}: connection limit -1 → 7`]],
      [
        `ALTER DATABASE ${database} SET work_mem = '7MB'`,
        [`database ${database}: settings none → work_mem=7MB`],
      ],
      [`GRANT pg_monitor TO ${role}`, [`membership of ${role} in pg_monitor granted by ${user} created`]],
      [`CREATE TABLE t (); ALTER TABLE t OWNER TO ${role}`, ['dependencies on shared objects created']],
      ['CREATE TEMPORARY TABLE x ()', []],
      [`CREATE DATABASE ${identifier(own)}`, []],
    ];
    try {
      for (const [sql, told] of steps) {
        const before = await sharedCatalogues(session, oid);
        await session.query(sql);
        const all = compareShared(before, await sharedCatalogues(session, oid));
        const ours = all
          .map(({ what }) => what)
          .filter((line) => [role, database, own, 'dependencies'].some((name) => line.includes(name)));
        expect(ours, sql).toEqual(told);
      }
    } finally {
      await session.query(`DROP DATABASE IF EXISTS ${identifier(own)}`);
      await session.query(`DROP OWNED BY ${role}`);
      await session.query(`ALTER ROLE ${role} IN DATABASE ${database} RESET ALL`);
      await session.query(`DROP ROLE ${role}`);
      await drop();
    }
  });
});
