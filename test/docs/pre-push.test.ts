import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { runProgram, temporaryFolder } from '../helpers/cli.ts';
import { fillProject } from '../helpers/reader-project.ts';

const HOOK = fileURLToPath(new URL('../../templates/pre-push', import.meta.url));

test('the hook for git rehearses what is pushed on a dump, if migrations are part of it', {
  timeout: 120_000,
}, async () => {
  const [folder, remote] = [temporaryFolder(), temporaryFolder()];
  await fillProject(folder);
  const run = async (line: string) =>
    runProgram(['bash', '--norc', '-c', line], { folder, env: { GIT_CONFIG_GLOBAL: '/dev/null' } });
  const commit = (name: string) =>
    run(
      `git add -A && git -c user.name=a -c user.email=a@example.com commit -q -m ${name} && git push -q origin HEAD:main`,
    );
  writeFileSync(path.join(folder, '.gitignore'), 'node_modules\nbin\n');
  writeFileSync(path.join(folder, 'test/dump.sql'), 'CREATE TABLE accounts (id int, balance int);\n');
  expect(
    (await run(`git init -q --bare ${remote} && git init -q && git remote add origin ${remote}`)).exitCode,
  ).toBe(0);
  const hook = path.join(folder, '.git/hooks/pre-push');
  copyFileSync(HOOK, hook);
  chmodSync(hook, 0o755);
  // What a user edits: the first lines.
  const edited = readFileSync(hook, 'utf8')
    .replace('migrations=prisma/migrations', 'migrations=migrations')
    .replace('npx prisma migrate deploy', 'npx knex migrate:latest');
  writeFileSync(hook, edited);

  const first = await commit('first');
  expect(first.exitCode, first.stderr).toBe(0);
  expect(first.stderr).toMatch(/PASSED/);

  writeFileSync(path.join(folder, 'notes.md'), 'no migration');
  const other = await commit('other');
  expect(other.exitCode, other.stderr).toBe(0);
  expect(other.stderr).not.toMatch(/PASSED/);

  copyFileSync(
    path.join(folder, 'failing/20260201_one_customer_per_address.js'),
    path.join(folder, 'migrations/20260201_one_customer_per_address.js'),
  );
  const wrong = await commit('wrong');
  expect(wrong.exitCode).not.toBe(0);
  expect(wrong.stderr).toMatch(/FAILED|DID NOT PASS/);
  expect((await run('git log --format=%s origin/main')).stdout).not.toContain('wrong');
});
