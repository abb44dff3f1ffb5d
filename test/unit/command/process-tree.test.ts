import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { ProcessFamily, processIn } from '../../../src/command/process-tree.ts';

describe('the state of a process', () => {
  // The flags of a program with 3 GB of memory: while it ran, for 1.7 s while its memory was taken back, and as a zombie.
  const stat = (state: string, flags: string) =>
    `17095 (a (b) c) ${state} 17001 17095 17001 34816 17095 ${flags} 0 0 0 0 5 7 0 0 20 0 1 0 8801234 0 0`;

  test('is read beyond a name that holds parentheses', () => {
    expect(processIn(stat('S', '4194304'))).toEqual({
      pid: 17095,
      parent: 17001,
      group: 17095,
      started: '8801234',
      exits: false,
    });
  });

  test('shows that its end has begun', () => {
    expect(processIn(stat('R', '4194316'))).toMatchObject({ exits: true });
  });

  test.each(['Z', 'X'])('%s is that of one that has ended', (state) => {
    expect(processIn(stat(state, '4227084'))).toBeUndefined();
  });

  test('is not there if the file is gone', () => {
    expect(processIn('')).toBeUndefined();
  });
});

describe('a command that has ended before anybody looks', () => {
  const marker = `mark-${process.pid}`;
  const start = (seconds: string) =>
    spawn(process.execPath, ['-e', `setTimeout(() => {}, ${seconds} * 1000)`], {
      env: { ...process.env, MARK: marker },
    });

  test('has what began after it, and nothing older', async () => {
    const older = start('60');
    await once(older, 'spawn');
    // Starts are counted in hundredths of a second.
    await pause(50);
    const root = start('0.05');
    const family = new ProcessFamily(root.pid ?? 0, undefined, marker);
    const later = start('60');
    await once(root, 'exit');
    // Others show no environment.
    expect(await family.pids()).toEqual(process.platform === 'linux' ? [later.pid] : []);
    for (const each of [older, later]) each.kill();
  });
});
