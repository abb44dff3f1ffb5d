import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { safemigrate } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { copyProject, project } from '../helpers/projects.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

test('what it writes and shows for a Knex project rehearses it, and a second time it leaves everything', async () => {
  const { folder, remove } = await copyProject('knex');
  try {
    const dry = await safemigrate(['init', '--dry-run'], { folder });
    expect(dry.exitCode, dry.stderr).toBe(0);
    expect(dry.stdout).toMatch(/Found Knex[\s\S]*--- safemigrate\.config\.json[\s\S]*Nothing was written/);

    const written = await safemigrate(['init'], { folder });
    expect(written.exitCode, written.stderr).toBe(0);
    const [, command = ''] = /^ +safemigrate -- (.*)$/m.exec(written.stdout) ?? [];
    expect(command).toBe('npx knex migrate:latest');
    expect(written.stdout).toContain('Run safemigrate-ci.sh in its CI.');
    const config = path.join(folder, 'safemigrate.config.json');
    const text = readFileSync(config, 'utf8');

    const target = await temporaryDatabase(18);
    const env = project('knex').environment(target.url);
    const run = await safemigrate(['--', ...command.split(' ')], { folder, env });
    expect(run.exitCode, run.stderr).toBe(0);
    expect(run.stderr).toMatch(/PASSED/);

    const again = await safemigrate(['init'], { folder });
    // The configuration is data, so that there is nothing to say about programs.
    expect(again.stderr).toBe('');
    expect(again.stdout).toMatch(/safemigrate\.config\.json is there already, and was left as it is/);
    expect(readFileSync(config, 'utf8')).toBe(text);
    expect(again.stdout).toMatch(/^ +export DATABASE_URL=.*\n +safemigrate doctor$/m);

    // Installed among the project's packages, which has its URL in a file.
    writeFileSync(path.join(folder, '.env'), `OTHER=1\nDATABASE_URL=${target.url}\n`);
    // It is a link to ours.
    rmSync(path.join(folder, 'node_modules'));
    mkdirSync(path.join(folder, 'node_modules/.bin'), { recursive: true });
    writeFileSync(path.join(folder, 'node_modules/.bin/safemigrate'), '');
    const installed = await safemigrate(['init', '--dry-run'], { folder });
    expect(installed.stdout).not.toContain('export ');
    expect(installed.stdout).toMatch(
      /^ +npx safemigrate doctor +# reads DATABASE_URL from \.env\n +npx safemigrate -- npx knex/m,
    );
  } finally {
    await remove();
  }
});
