import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { probeReflink } from '../../../../src/clone/cluster/copier.ts';
import { newRunId } from '../../../../src/ownership/run-id.ts';

const HOUR_MS = 3_600_000;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-probe-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('looking whether files can share blocks leaves nothing, and removes what a killed run left of it', async () => {
  const file = path.join(folder, 'PG_VERSION');
  await writeFile(file, '18\n');
  const killed = newRunId(Date.now() - HOUR_MS);
  const others = [`.safemigrate_${newRunId()}_probe`, '.safemigrate_probe', `.safemigrate_${killed}_data`];
  for (const name of others) await writeFile(path.join(folder, name), '');
  await writeFile(path.join(folder, `.safemigrate_${killed}_probe`), '18\n');
  await mkdir(path.join(folder, `.safemigrate_${killed}_probe_nodatacow`));
  await writeFile(path.join(folder, `.safemigrate_${killed}_probe_nodatacow`, '0'), '18\n');

  await probeReflink(file, folder, newRunId());
  expect((await readdir(folder)).sort()).toEqual(['PG_VERSION', ...others].sort());
});
