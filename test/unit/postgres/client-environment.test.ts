import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { clientEnvironment, databaseArgument } from '../../../src/postgres/connection/client-environment.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';

const environment = (url: string, settings?: Record<string, string>) =>
  clientEnvironment(parseSettings(url, readEnvironment({}, '/')), {
    applicationName: 'us',
    ...(settings === undefined ? {} : { settings }),
  });

describe('the environment of a client program', () => {
  test('leads where the settings do, with the password', () => {
    expect(
      environment('postgresql://me:p%40ss@db:5433/shop?sslmode=require&connect_timeout=3'),
    ).toMatchObject({
      PGHOST: 'db',
      PGPORT: '5433',
      PGUSER: 'me',
      PGPASSWORD: 'p@ss',
      PGDATABASE: 'shop',
      PGSSLMODE: 'require',
      PGCONNECT_TIMEOUT: '3',
      PGAPPNAME: 'us',
    });
  });

  test('has nothing of our own PG* variables', () => {
    process.env.PGSERVICE = 'elsewhere';
    try {
      expect(environment('postgresql://me@db/shop')).not.toHaveProperty('PGSERVICE');
    } finally {
      delete process.env.PGSERVICE;
    }
  });

  test("adds the session's settings to those that were asked for", () => {
    const { PGOPTIONS } = environment('postgresql://me@db/shop?options=-c%20work_mem%3D1MB', { jit: 'off' });
    expect(PGOPTIONS).toBe('-c work_mem=1MB -c jit=off');
  });

  test('names files by their full paths, and the system by its name', () => {
    const given = environment('postgresql://me@db/shop?sslmode=verify-full&sslrootcert=ca.pem');
    expect(given.PGSSLROOTCERT).toBe(path.resolve('ca.pem'));
    expect(environment('postgresql://me@db/shop?sslrootcert=system').PGSSLROOTCERT).toBe('system');
  });
});

test.each([
  ['shop', "dbname='shop'"],
  ['host=evil', "dbname='host=evil'"],
  ["it's \\", "dbname='it\\'s \\\\'"],
])('the database %s is the argument %s', (name, argument) => {
  expect(databaseArgument(name)).toBe(argument);
});
