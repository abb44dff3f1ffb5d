import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { execa } from 'execa';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../helpers/cli.ts';

const WORKFLOW = new URL('../../.github/workflows/release.yml', import.meta.url);

/** Runs the release's own check of the tag in a folder with this version and changelog. */
async function checkTag(tag: string, changelog: string) {
  const folder = temporaryFolder();
  writeFileSync(path.join(folder, 'package.json'), '{"version": "1.2.3"}');
  writeFileSync(path.join(folder, 'CHANGELOG.md'), changelog);
  const { jobs } = parse(readFileSync(WORKFLOW, 'utf8'));
  const { run } = jobs.release.steps.find(({ name = '' }) => name.startsWith('Compare the tag'));
  const ended = await execa('bash', ['-e', '-c', run], {
    cwd: folder,
    env: { GITHUB_REF_NAME: tag, RUNNER_TEMP: folder },
    reject: false,
  });
  return { ...ended, notes: () => readFileSync(path.join(folder, 'notes.md'), 'utf8').trim() };
}

const CHANGELOG = '# Changelog\n\n## 1.2.3, 2027-01-02\n\n- This.\n- That.\n\n## 1.2.2\n\n- Before.\n';

test('a release has the notes of its own version', async () => {
  const { exitCode, notes, stdout } = await checkTag('v1.2.3', CHANGELOG);
  expect([exitCode, stdout]).toEqual([0, '']);
  expect(notes()).toBe('- This.\n- That.');
});

test.each([
  ['another tag', 'v1.2.4', CHANGELOG, 'package.json has 1.2.3'],
  ['no section', 'v1.2.3', '# Changelog\n\n## 1.2.2\n\n- Before.\n', 'no section for 1.2.3'],
  [
    'a version that is not released',
    'v1.2.3',
    CHANGELOG.replace('2027-01-02', 'not released yet'),
    'not released yet',
  ],
])('%s ends the release', async (_, tag, changelog, why) => {
  const { exitCode, stdout } = await checkTag(tag, changelog);
  expect([exitCode, stdout]).toEqual([1, expect.stringContaining(why)]);
});

test('the package names the repository that the release runs in', async () => {
  const folder = temporaryFolder();
  writeFileSync(path.join(folder, 'package.json'), '{"name": "safemigrate", "version": "1.2.3"}');
  const { jobs } = parse(readFileSync(WORKFLOW, 'utf8'));
  const { run } = jobs.release.steps.find(({ name = '' }) => name.startsWith('Name the repository'));
  const env = { GITHUB_SERVER_URL: 'https://code.example', GITHUB_REPOSITORY: 'group/tool' };
  await execa('bash', ['-e', '-c', run], { cwd: folder, env });
  expect(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))).toEqual({
    name: 'safemigrate',
    version: '1.2.3',
    repository: { type: 'git', url: 'git+https://code.example/group/tool.git' },
    bugs: { url: 'https://code.example/group/tool/issues' },
    homepage: 'https://code.example/group/tool#readme',
  });
});
