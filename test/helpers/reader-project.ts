import { chmod, cp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CLI } from './cli.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const FILES: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({
    private: true,
    type: 'module',
    scripts: { migrate: 'knex migrate:latest' },
    devDependencies: { knex: '3.3.0' },
  }),
  'checks/orphans.sql': 'SELECT id FROM sessions WHERE account IS NULL',
  'migrations/20260301_find_balances.js': `export const up = (knex) => knex.schema.alterTable('accounts', (table) => table.index('balance'));
export const down = (knex) => knex.schema.alterTable('accounts', (table) => table.dropIndex('balance'));\n`,
  'mask.sql': 'UPDATE accounts SET balance = 0',
  'change.sql': 'ALTER TABLE accounts ADD COLUMN note text',
  'make-clone.sh': `#!/bin/sh -e
createdb --template "$SAFEMIGRATE_TARGET_DATABASE" "rehearsal_$SAFEMIGRATE_RUN" >&2
echo "postgresql://$PGUSER@$PGHOST:$PGPORT/rehearsal_$SAFEMIGRATE_RUN"\n`,
  'remove-clone.sh': '#!/bin/sh\nexec dropdb --if-exists "rehearsal_$SAFEMIGRATE_RUN"\n',
  // libpq reads what remains of a JDBC URL, user and password included.
  'bin/flyway': `#!/bin/sh\nexec psql -v ON_ERROR_STOP=1 -f change.sql "\${1#-url=jdbc:}"\n`,
};

/**
 * Makes a folder the project of a reader of the documentation, as after `npm install`: with Knex, safemigrate among its packages, and the
 * files that the pages name. What was in it goes.
 */
export async function fillProject(folder: string): Promise<void> {
  for (const name of await readdir(folder)) await rm(path.join(folder, name), { recursive: true });
  await cp(path.join(ROOT, 'fixtures/projects/knex'), folder, { recursive: true });
  for (const [file, text] of Object.entries(FILES)) {
    await mkdir(path.join(folder, path.dirname(file)), { recursive: true });
    await writeFile(path.join(folder, file), text);
    if (text.startsWith('#!')) await chmod(path.join(folder, file), 0o755);
  }
  for (const name of ['test', 'reports']) await mkdir(path.join(folder, name));
  // As after `npm install`: its packages, and safemigrate among them.
  const packages = path.join(folder, 'node_modules');
  await mkdir(path.join(packages, '.bin'), { recursive: true });
  for (const name of await readdir(path.join(ROOT, 'node_modules')))
    if (!name.startsWith('.'))
      await symlink(path.join(ROOT, 'node_modules', name), path.join(packages, name));
  for (const name of await readdir(path.join(ROOT, 'node_modules/.bin')))
    await symlink(path.join(ROOT, 'node_modules/.bin', name), path.join(packages, '.bin', name));
  await symlink(ROOT, path.join(packages, 'safemigrate'));
  for (const place of ['bin', 'node_modules/.bin'])
    await symlink(CLI, path.join(folder, place, 'safemigrate'));
}
