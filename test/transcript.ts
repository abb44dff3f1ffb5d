/**
 * npm run transcript: runs the built demo, keeps the report of its first rehearsal beside the test that compares it with
 * README.md, and writes what a terminal shows of it into README.md, and pictures of its page into docs/.
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

const demo = spawnSync(process.execPath, ['dist/cli/main.js', 'demo', '--report', kept], {
  stdio: 'inherit',
});
if (demo.status !== 0) throw new Error(`the demo ended with ${demo.status}`);
const report: Report = JSON.parse(readFileSync(kept, 'utf8'));
const [, ...words] = report.command.argv;
const portable: Report = { ...report, command: { ...report.command, argv: ['node', ...words] } };
writeFileSync(kept, `${JSON.stringify(portable, null, 2)}\n`);
writeFileSync(readme, withBlock(readFileSync(readme, 'utf8'), TRANSCRIPT_BLOCK, transcriptOf(portable)));
await takePictures(portable, path.join(root, 'docs'));
