// A migration command for tests: runs the programs of programs.json one after the other, and writes down when it began and ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';

const startedAt = Date.now();
const programs = JSON.parse(readFileSync('programs.json', 'utf8'));
for (const [program, ...args] of programs) {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  await once(child, 'close');
  if (child.exitCode === 0) continue;
  console.error(`${program} ${args.join(' ')}: ${child.exitCode}\n${errors}`);
  process.exitCode = 7;
}
writeFileSync('times.json', JSON.stringify({ startedAt, endedAt: Date.now() }));
