import { describe, expect, test } from 'vitest';
import { newlyBroken, readBodiesBefore } from '../../../src/observe/effects/body-failures.ts';
import { compareWith } from '../../../src/schema/compare-schemas.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { scratch } from '../../helpers/scratch.ts';
import { NEWEST } from '../../helpers/servers.ts';

const THINGS = 'CREATE TABLE things (id int PRIMARY KEY, settings jsonb);';
const functionOf = (body: string, head = 'put(id int) RETURNS void') =>
  `CREATE OR REPLACE FUNCTION ${head} LANGUAGE plpgsql SET search_path = public AS $$ BEGIN ${body} END $$;`;

describe.each(NEWEST)('functions that break, on %i', (version) => {
  const brokenBy = async (made: string, sql: string) => {
    const at = await scratch(version, made);
    try {
      const [snapshot, bodies] = [await takeSnapshot(at.session), await readBodiesBefore(at.session)];
      await at.session.query(sql);
      const { section } = await compareWith(snapshot, at.session);
      return (await newlyBroken(at.session, bodies, section, [])).map(({ error, mentions }) => [
        error,
        ...mentions,
      ]);
    } finally {
      await at.drop();
    }
  };

  test('have the changed objects that they mention', async () => {
    const reading = functionOf("PERFORM settings ->> 'a' FROM things;");
    const sql =
      'ALTER TABLE others ADD COLUMN settings int; ALTER TABLE things ALTER COLUMN settings TYPE text';
    expect(await brokenBy(`${THINGS} CREATE TABLE others (id int); ${reading}`, sql)).toEqual([
      ['operator does not exist: text ->> unknown', 'public.things.settings'],
    ]);
  });

  test('are not those that qualify their arguments by the name of the function', async () => {
    const made = `${THINGS} ${functionOf('INSERT INTO things VALUES (id);')}`;
    const qualified = (name: string) =>
      functionOf(`UPDATE things SET settings = NULL WHERE things.id = ${name}.id;`);
    expect(await brokenBy(made, qualified('put'))).toEqual([]);
    expect(await brokenBy(made, qualified('other'))).toEqual([
      [expect.stringContaining('missing FROM-clause entry for table "other"'), 'public.put'],
    ]);
  });

  test('are not trigger functions that no trigger runs any more', async () => {
    const noting = functionOf(
      'INSERT INTO things (id, settings) VALUES (new.id, NULL); RETURN new;',
      'noting() RETURNS trigger',
    );
    const made = `${THINGS} CREATE TABLE log (id int); ${noting}
      CREATE TRIGGER noted AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION noting()`;
    const dropped = 'ALTER TABLE things DROP COLUMN settings';
    expect(await brokenBy(made, dropped)).toHaveLength(1);
    expect(await brokenBy(made, `DROP TABLE log; ${dropped}`)).toEqual([]);
  });
});
