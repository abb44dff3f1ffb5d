import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { callsIn, mistakeIn } from '../../helpers/documented-commands.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const { version } = JSON.parse(read('package.json'));

test('the version has a section in the changelog, and pages name its tarball', () => {
  expect(read('CHANGELOG.md')).toMatch(new RegExp(`^## ${version.replaceAll('.', '\\.')}(,|$)`, 'm'));
  for (const page of ['README.md', 'docs/getting-started.md'])
    expect([...read(page).matchAll(/safemigrate-([\d.]+)\.tgz/g)].map(([, named]) => named)).toEqual(
      expect.arrayContaining([version]),
    );
});

/** Compares manifests with the types that are generated from the API's own schema. @returns what does not fit, a line each. */
async function mistakesOfJobs(...manifests: unknown[]): Promise<string[]> {
  const folder = mkdtempSync(path.join(root, 'node_modules/.cache-manifest-'));
  try {
    const file = path.join(folder, 'job.ts');
    const jobs = manifests.map((manifest, at) => `export const job${at}: Job = ${JSON.stringify(manifest)};`);
    writeFileSync(file, ["import type { Job } from 'kubernetes-types/batch/v1';", ...jobs].join('\n'));
    const module = ['--module', 'esnext', '--moduleResolution', 'bundler'];
    const words = ['--noEmit', '--strict', '--ignoreConfig', ...module, file];
    const tsc = await execa(path.join(root, 'node_modules/.bin/tsc'), words, { reject: false });
    return tsc.stdout.split('\n').filter(Boolean);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('the manifests are Jobs as the API of Kubernetes defines them', async () => {
  const spec = { template: { spec: { containers: [{ imagee: 'x' }], terminationGracePeriodSeconds: '5' } } };
  const wrong = { apiVersion: 'batch/v1', kind: 'Job', spec };
  const ours = ['templates/kubernetes-job.yaml', 'templates/argocd-presync.yaml'].map((file) =>
    parse(read(file)),
  );
  expect(await mistakesOfJobs(wrong, ...ours)).toEqual([
    expect.stringMatching(/job\.ts\(2,.*imagee/),
    expect.stringMatching(/job\.ts\(2,.*'string' is not assignable to type 'number'/),
  ]);
});

describe.each(['templates/kubernetes-job.yaml', 'templates/argocd-presync.yaml'])('%s', (file) => {
  const manifest = parse(read(file));
  const pod = manifest.spec.template.spec;
  const [container] = pod.containers;

  test('is a Job that tries once', () => {
    expect([manifest.apiVersion, manifest.kind]).toEqual(['batch/v1', 'Job']);
    expect(manifest.metadata.generateName ?? manifest.metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*)$/);
    expect(manifest.spec).toMatchObject({ backoffLimit: 0, activeDeadlineSeconds: expect.any(Number) });
    expect(pod).toMatchObject({ restartPolicy: 'Never', securityContext: { runAsNonRoot: true } });
    const mounted = container.volumeMounts.map(({ name }: { name: string }) => name);
    expect(mounted.toSorted()).toEqual(pod.volumes.map(({ name }: { name: string }) => name).toSorted());
  });

  test('calls safemigrate with options that exist, and writes only into volumes', () => {
    expect(container.command).toEqual(['safemigrate']);
    expect(container.args.every((each: unknown) => typeof each === 'string')).toBe(true);
    expect(mistakeIn(container.args)).toBeUndefined();
    const verb = container.args[0] === 'apply' ? 1 : 0;
    expect(mistakeIn(container.args.toSpliced(verb, 0, '--clone', 'cnpg'))).toBeUndefined();
    const mounts: string[] = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
    const written = [
      ...container.args.filter((each: string) => each.startsWith('/')),
      ...container.env.flatMap(({ value }: { value?: string }) => value ?? []),
    ];
    expect(written.filter((each) => !mounts.some((mount) => `${each}/`.startsWith(`${mount}/`)))).toEqual([]);
  });

  test('holds no secret, and reads the URL from one', () => {
    const url = container.env.find(({ name }: { name: string }) => name === 'DATABASE_URL');
    expect(Object.keys(url.valueFrom.secretKeyRef)).toEqual(['name', 'key']);
  });
});

test('the manifest for Argo CD is a PreSync hook that applies', () => {
  const { metadata, spec } = parse(read('templates/argocd-presync.yaml'));
  expect(metadata.annotations['argocd.argoproj.io/hook']).toBe('PreSync');
  expect(['HookSucceeded', 'HookFailed', 'BeforeHookCreation']).toContain(
    metadata.annotations['argocd.argoproj.io/hook-delete-policy'],
  );
  expect(spec.template.spec.containers[0].args.slice(0, 2)).toEqual(['apply', '--yes']);
});

test.each(['templates/pre-push', 'templates/safemigrate.yml', 'action.yml'])(
  'the options that %s gives exist',
  (file) => {
    // Between the options of the action and of the job stand expansions, which are not read here.
    const calls = callsIn(
      read(file)
        .replaceAll(/"\$\{\w+\[@\]\}"|\$\(.*?\)/g, '')
        .replaceAll(/main\.js"/g, '"; safemigrate'),
    );
    const joined = calls.filter((argv) => argv.includes('--'));
    expect(joined.map(mistakeIn).filter((mistake) => mistake !== undefined)).toEqual([]);
    if (file === 'templates/pre-push') expect(joined.length).toBe(1);
  },
);

test('the release is triggered by tags alone, publishes with provenance, and holds no token for it', () => {
  const text = read('.github/workflows/release.yml');
  const { on, permissions, jobs } = parse(text);
  expect(Object.keys(on)).toEqual(['push']);
  expect(on.push).toEqual({ tags: ['v*.*.*'] });
  expect(permissions).toEqual({ contents: 'read' });
  expect(jobs.release.permissions).toEqual({ contents: 'write', 'id-token': 'write' });
  const runs = jobs.release.steps.flatMap(({ run }: { run?: string }) => run ?? []).join('\n');
  expect(runs).toContain('npm publish --provenance');
  expect(runs).toContain('npm sbom');
  expect(text).not.toMatch(/secrets\.|https?:/);
  const scripts = JSON.parse(read('package.json')).scripts;
  for (const [, name = ''] of runs.matchAll(/npm run (\S+)/g)) expect(scripts).toHaveProperty([name]);
  const steps = Object.values<{ steps: { uses?: string }[] }>(jobs).flatMap((job) => job.steps);
  for (const { uses } of steps) if (uses) expect(uses).toMatch(/^actions\/[\w-]+@[0-9a-f]{40}$/);
});

test('the sums of a release are signed by the workflow, before they become visible', () => {
  const { jobs } = parse(read('.github/workflows/release.yml'));
  expect(jobs.finish.permissions).toMatchObject({ 'id-token': 'write', attestations: 'write' });
  const steps: { name?: string; uses?: string; run?: string }[] = jobs.finish.steps;
  const order = [/checksums\.sh/, /^actions\/attest@/, /SHA256SUMS\.sigstore\.json/, /--draft=false/];
  const places = order.map((what) =>
    steps.findIndex(({ uses = '', run = '' }) => what.test(uses) || what.test(run)),
  );
  expect(places).toEqual(places.toSorted((one, other) => one - other));
  expect(places[0]).toBeGreaterThan(0);
});

test('the Containerfile ends as an ordinary user, and runs safemigrate', () => {
  const lines = read('Containerfile').split('\n');
  const last = (word: string) => lines.findLast((line) => line.startsWith(`${word} `));
  expect(last('USER')).toBe('USER node');
  expect(last('ENTRYPOINT')).toBe('ENTRYPOINT ["safemigrate"]');
  expect(last('FROM')).toMatch(/^FROM node:\$\{NODE\}-bookworm-slim$/);
  expect(lines.join('\n')).not.toMatch(/https?:/);
  const clients = /^ARG CLIENTS="(.*)"$/m.exec(lines.join('\n'))?.[1]?.split(' ').map(Number);
  expect(clients).toEqual([14, 15, 16, 17, 18, 19]);
});
