import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { LANGUAGES } from '../helpers/drivers.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { toolchain } from '../helpers/toolchains.ts';

const RELEASE = fileURLToPath(new URL('../../fixtures/applications/python', import.meta.url));
const { folder, toolchain: wanted } = LANGUAGES.python;
const python = await toolchain('drivers-python', folder, wanted);

if ('missing' in python)
  describe.skipIf(skipReason(python.missing))('an application in Python', () =>
    test.todo('needs its drivers'),
  );
else
  test.each([
    ['a column that the old INSERT does not give', 'ADD COLUMN team text NOT NULL', '23502'],
    ['a column that nobody has to give', "ADD COLUMN team text NOT NULL DEFAULT 'none'", null],
  ])('the tests of a release in Python find %s', async (_, action, sqlstate) => {
    const target = await temporaryDatabase(18, {
      sql: 'CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL, nick text)',
    });
    const checks = `'${path.join(python.folder, 'bin/python')}' -B -m unittest`;
    const { report } = await rehearse(target.url, sqlCommand(`ALTER TABLE people ${action}`), {
      args: ['--app', checks],
      env: { SAFEMIGRATE_APP_DIR: RELEASE },
    });
    expect(report.app).toMatchObject([{ result: sqlstate === null ? 'works' : 'breaks' }]);
    expect(report.app?.[0]?.failed.map((each) => each.sqlstate)).toEqual(sqlstate === null ? [] : [sqlstate]);
    expect(report.hazards.some(({ code }) => code === 'APPLICATION_BREAKS')).toBe(sqlstate !== null);
  });
