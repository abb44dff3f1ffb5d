import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseAllowedPlaces } from '../../../../src/command/sandbox/allowed-places.ts';
import { refuseOutsideRunners } from '../../../../src/command/sandbox/refuse-outside-runners.ts';

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'runners-'));
  const scripts = {
    migrate: 'npm run in-container',
    'in-container': 'NODE_ENV=test docker compose run --rm app rake db:migrate',
    plain: 'prisma migrate deploy',
    loop: 'npm run loop',
  };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ scripts }));
});

afterAll(() => rmSync(folder, { recursive: true }));

const check = (argv: readonly string[], ...allowed: string[]) =>
  refuseOutsideRunners({ argv, folder }, parseAllowedPlaces(allowed));

test.each([
  ['docker', 'docker compose run app migrate'],
  ['docker', '/usr/bin/docker exec -i db psql'],
  ['docker-compose', 'docker-compose -f a.yml up migrate'],
  ['podman', 'podman run --rm image migrate'],
  ['kubectl', 'kubectl exec deploy/app -- migrate'],
  ['systemd-run', 'systemd-run --wait migrate'],
  ['ssh', 'ssh host migrate'],
  ['flatpak-spawn', 'flatpak-spawn --host psql'],
  ['snap', 'snap run tool'],
  ['docker', 'env A=b docker run image'],
  ['docker', 'doppler run -- docker compose run app migrate'],
  ['docker', 'npm run migrate'],
  ['docker', 'pnpm --silent in-container'],
])('%s is refused in: %s', (name, line) => {
  expect(() => check(line.split(' '))).toThrow(new RegExp(`^${name} runs its programs `));
});

test.each([
  'set -e; docker compose run app migrate',
  'if true; then docker run image; fi',
  'cd app && (ssh host migrate)',
  'echo $(kubectl exec pod -- migrate)',
])('also in a script: %s', (script) => {
  expect(() => check(['bash', '-ec', script])).toThrow(' runs its programs ');
});

test.each([
  'psql -f docker.sql',
  'docker ps',
  'docker build .',
  'npm run plain',
  'npm run loop',
  'npm run none',
  'echo docker run',
  'sh migrate.sh docker run',
  'ssh',
  '',
])('not refused: %s', (line) => {
  expect(() => check(line.split(' '))).not.toThrow();
});

test('who allows its socket or its host lets it through', () => {
  expect(() => check(['docker', 'run', 'image'], '/var/run/docker.sock')).not.toThrow();
  expect(() => check(['docker', 'run', 'image'], 'api.example:443')).toThrow();
  expect(() => check(['ssh', 'host', 'migrate'], 'host:22')).not.toThrow();
});
