// A migration command for tests: runs the programs of programs.json, so many at once, and writes down when it began and ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';

const startedAt = Date.now();
const { atOnce, programs } = JSON.parse(readFileSync('programs.json', 'utf8'));
const waiting = [...programs];
await Promise.all(
  Array.from({ length: atOnce }, async () => {
    for (let program = waiting.shift(); program; program = waiting.shift()) await run(program);
  }),
);
writeFileSync('times.json', JSON.stringify({ startedAt, endedAt: Date.now() }));

async function run([program, ...args]) {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  await once(child, 'close');
  if (child.exitCode === 0) return;
  console.error(`${program} ${args.join(' ')}: ${child.exitCode}\n${errors}`);
  process.exitCode = 7;
}
