import { expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';

test('a login event trigger of the command’s runs for the command, and never for us', async () => {
  const target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  const trigger = `
    CREATE TABLE logins (application text);
    CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF current_setting('application_name') LIKE 'safemigrate%' THEN RAISE EXCEPTION 'planted'; END IF;
      INSERT INTO logins VALUES (current_setting('application_name'));
    END $$;
    CREATE EVENT TRIGGER note ON login EXECUTE FUNCTION note();
    ALTER EVENT TRIGGER note ENABLE ALWAYS`;
  const { report, exitCode, stderr } = await rehearse(target.url, sqlCommand(trigger), {
    args: ['--check', 'SELECT count(*) FROM jobs', '--rerun'],
  });
  expect(stderr).not.toContain('planted');
  expect(report.caveats.map(({ reason }) => reason).join()).not.toContain('planted');
  expect(report.schema?.changes.map(({ object }) => object)).toContain('public.logins');
  expect(report.checks).toMatchObject([{ passed: true }]);
  // It runs for the command's second run, which fails since the trigger is there.
  expect(report.rerun).toMatchObject({ passed: false });
  expect(exitCode).toBe(1);
  await target.drop();
});
