// A migration command for tests: starts all programs of programs.json at the same time, and writes down when it began and ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';

const startedAt = Date.now();
const programs = JSON.parse(readFileSync('programs.json', 'utf8'));
await Promise.all(
  programs.map(async ([program, ...args]) => {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.on('data', (chunk) => {
      errors += chunk;
    });
    await once(child, 'close');
    if (child.exitCode === 0) return;
    console.error(`${program} ${args.join(' ')}: ${child.exitCode}\n${errors}`);
    process.exitCode = 7;
  }),
);
writeFileSync('times.json', JSON.stringify({ startedAt, endedAt: Date.now() }));
