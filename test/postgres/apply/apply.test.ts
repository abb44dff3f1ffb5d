import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Emit } from '../../../src/events.ts';
import { apply } from '../../../src/index.ts';
import type { Report } from '../../../src/model/report.ts';
import { sqlCommand } from '../../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { useOwnServers } from '../../helpers/servers.ts';
import { digestOf } from '../../helpers/target-state.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
});

afterEach(() => target.drop());

const inTarget = (sql: string) => withClient(target.url, (client) => client.query(sql));

const applyTo = (
  command: string[],
  confirm: (report: Report) => Promise<boolean>,
  more: { emit?: Emit } = {},
) => apply({ command, target: { url: target.url }, commandStdout: 'stderr', confirm, ...more });

const MAKE = sqlCommand('CREATE TABLE made (id int)');

describe('an apply to a target that changes', () => {
  test('an apply is refused if the target changes before the confirmation, and names the change', async () => {
    const { apply: applied } = await applyTo(MAKE, async () => {
      await inTarget('ALTER TABLE jobs ADD COLUMN done bool');
      return true;
    });
    expect(applied).toMatchObject({
      outcome: 'refused',
      reasons: ['the target changed since it was rehearsed on: create column public.jobs.done'],
    });
    expect((await inTarget("SELECT to_regclass('made') AS made")).rows).toEqual([{ made: null }]);
  });

  test('an apply goes on after a TRUNCATE by another session', async () => {
    const { apply: applied } = await applyTo(MAKE, async () => {
      await inTarget('TRUNCATE jobs');
      return true;
    });
    expect(applied?.outcome).toBe('applied');
  });

  test('an apply rehearses again if the target changed during the rehearsal', async () => {
    const notices: string[] = [];
    let changed: Promise<unknown> | undefined;
    const { apply: applied, schema } = await applyTo(MAKE, async () => true, {
      emit: (event) => {
        if (event.type === 'phase-end' && event.phase === 'before')
          changed ??= inTarget('ALTER TABLE jobs ADD COLUMN done bool');
        if (event.type === 'notice') notices.push(event.message);
      },
    });
    await changed;
    expect(notices.join()).toContain('rehearsing again');
    expect(applied).toMatchObject({ outcome: 'applied', schemaEqual: true });
    expect(schema?.before).toBe(applied?.fingerprints?.before);
  });
});

describe('an apply', () => {
  test('an apply that is not confirmed leaves the target unchanged', async () => {
    const before = await digestOf(target.url);
    const { apply: applied } = await applyTo(MAKE, async () => false);
    expect(applied).toMatchObject({ outcome: 'refused', reasons: ['it was not confirmed'] });
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('an apply is refused while another one is running, and names its session', async () => {
    const { apply: applied } = await applyTo(MAKE, async () => {
      await expect(applyTo(MAKE, async () => true)).rejects.toMatchObject({
        code: 'REFUSED',
        message: expect.stringMatching(
          new RegExp(
            `^Another apply, swap or rollback of ${target.name} is running: process \\d+ of \\S+ \\(safemigrate apply\\), since 2`,
          ),
        ),
      });
      return true;
    });
    expect(applied?.outcome).toBe('applied');
  });

  test('an apply of a dump is a usage error', async () => {
    const folder = mkdtempSync(path.join(realpathSync(tmpdir()), 'safemigrate-test-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const options = {
      command: MAKE,
      target: { from: path.join(folder, 'dump.sql') },
      confirm: async () => true,
    };
    await expect(apply(options)).rejects.toMatchObject({ code: 'USAGE' });
  });
});
