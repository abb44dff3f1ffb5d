import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { removeEmptyCgroups, startInCgroup } from '../../src/command/command-cgroup.ts';
import { skipReason } from '../helpers/requirements.ts';

const probe = startInCgroup(() => undefined).cgroup;
probe?.dissolve();

const OWN = expect.stringContaining(`-${process.pid}-`);
const ownCgroup = () => /^0::.*$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[0];

test.skipIf(skipReason(probe ? null : 'there is no cgroup v2 that may be changed'))(
  'a process begins in a cgroup of its own, which is removed with the process in it, while we stay in ours',
  async () => {
    const before = ownCgroup();
    const { started: child, cgroup } = startInCgroup(() => spawn('sleep', ['60']));
    expect(ownCgroup()).toBe(before);
    expect(cgroup?.pids()).toEqual([child.pid]);
    expect(removeEmptyCgroups()).not.toContainEqual(OWN);
    cgroup?.dissolve();
    expect(cgroup?.pids()).toEqual([]);
    child.kill('SIGKILL');
    await once(child, 'exit');
  },
);

test.skipIf(skipReason(probe ? null : 'there is no cgroup v2 that may be changed'))(
  'a start that fails leaves no cgroup, and us in ours',
  () => {
    const before = ownCgroup();
    const fail = () => {
      throw new Error('no such program');
    };
    expect(() => startInCgroup(fail)).toThrow('no such program');
    expect(ownCgroup()).toBe(before);
    expect(removeEmptyCgroups()).not.toContainEqual(OWN);
  },
);

test.skipIf(skipReason(probe ? null : 'there is no cgroup v2 that may be changed'))(
  'the group of a run that was killed is removed by the next run, and that of a living one is not',
  async () => {
    const mount = /^\d+ \d+ \S+ \S+ (\S+) .* - cgroup2 /m.exec(
      readFileSync('/proc/self/mountinfo', 'utf8'),
    )?.[1];
    const below = path.join(mount ?? '', ownCgroup()?.slice('0::'.length) ?? '');
    const killed = spawn('sh', ['-c', `mkdir "$0/safemigrate-command-$$-0123abcd" && kill -9 $$`, below]);
    await once(killed, 'exit');
    const [dead, living] = [killed.pid, process.ppid].map((pid) => `safemigrate-command-${pid}-0123abcd`);
    mkdirSync(path.join(below, living ?? ''));
    expect(readdirSync(below)).toContain(dead);
    startInCgroup(() => undefined).cgroup?.dissolve();
    const left = readdirSync(below);
    rmdirSync(path.join(below, living ?? ''));
    expect(left).not.toContain(dead);
    expect(left).toContain(living);
  },
);
