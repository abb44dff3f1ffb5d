// What the programs of this folder know of the project.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

export const root = path.join(import.meta.dirname, '..');
export const release = path.join(root, 'release');
export const facts = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
export const { version } = facts;

/** The commit's time, so that two builds of one commit are the same. */
export function commitTime() {
  const words = ['log', '-1', '--format=%ct'];
  return new Date(1000 * Number(execFileSync('git', words, { cwd: root, encoding: 'utf8' })));
}
