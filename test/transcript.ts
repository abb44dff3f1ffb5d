/**
 * npm run transcript: runs the built demo, keeps the report of its first rehearsal beside the test that compares it with
 * README.md, and writes what a terminal shows of it into README.md, and pictures of all its formats into docs/. With `-- --kept` it
 * renders the report that was kept.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Report } from '../src/model/report.ts';
import { withBlock } from './helpers/marked-block.ts';
import { takePictures } from './helpers/report-pictures.ts';
import { TRANSCRIPT_BLOCK, transcriptOf } from './helpers/transcript.ts';

const root = process.cwd();
const kept = path.join(root, 'test', 'unit', 'cli', 'transcript.json');
const readme = path.join(root, 'README.md');

if (!process.argv.includes('--kept')) {
  const words = ['dist/cli/main.js', 'demo', '--report', kept];
  const { status } = spawnSync(process.execPath, words, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`the demo ended with ${status}`);
}
const report: Report = JSON.parse(readFileSync(kept, 'utf8'));
const [, ...words] = report.command.argv;
const portable: Report = { ...report, command: { ...report.command, argv: ['node', ...words] } };
writeFileSync(kept, JSON.stringify(portable));
spawnSync('npx', ['biome', 'format', '--write', kept], { stdio: 'inherit' });
writeFileSync(readme, withBlock(readFileSync(readme, 'utf8'), TRANSCRIPT_BLOCK, transcriptOf(portable)));
await takePictures(portable, path.join(root, 'docs'));
