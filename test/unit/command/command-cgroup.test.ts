import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { makeCommandCgroup, removeEmptyCgroups } from '../../../src/command/command-cgroup.ts';
import { skipReason } from '../../helpers/requirements.ts';

const probe = makeCommandCgroup();
probe?.dissolve();

test.skipIf(skipReason(probe ? null : 'there is no cgroup v2 that may be changed'))(
  'a clean elsewhere, before the command has started, does not prevent its start',
  async () => {
    const cgroup = makeCommandCgroup();
    expect(removeEmptyCgroups()).toContainEqual(expect.stringContaining(`-${process.pid}-`));
    const child = cgroup?.start(() => spawn('sleep', ['60']));
    expect(cgroup?.pids()).toEqual([child?.pid]);
    child?.kill('SIGKILL');
    if (child) await once(child, 'exit');
    cgroup?.dissolve();
  },
);
