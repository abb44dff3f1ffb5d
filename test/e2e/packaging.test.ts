import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { execa } from 'execa';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../helpers/cli.ts';
import { skipReason } from '../helpers/requirements.ts';

const PACKAGING = fileURLToPath(new URL('../../packaging', import.meta.url));
const HERE = `${process.platform}-${process.arch}`;
const OTHERS = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64',
  'linux-arm64-musl',
  'linux-x64',
  'linux-x64-musl',
];
const SIGNER = 'group/tool';
const noRuby = spawnSync('ruby', ['--version']).error ? 'Ruby is not installed' : null;

/** A folder with executables of this version for all places, which are programs of sh here, and their sums. */
async function release({ version = '1.2.3', signedBy = '', begins = '' } = {}): Promise<string> {
  const folder = temporaryFolder();
  mkdirSync(path.join(folder, 'packaging'));
  mkdirSync(path.join(folder, 'release'));
  for (const place of OTHERS)
    writeFileSync(
      path.join(folder, 'release', `safemigrate-${version}-${place}.gz`),
      gzipSync(`#!/bin/sh\n${begins}echo ${version}-${place}\n`),
    );
  for (const name of ['checksums.sh', 'install.sh']) {
    const text = readFileSync(path.join(PACKAGING, name), 'utf8').replace(
      /^repository=$/m,
      `repository=${signedBy}`,
    );
    writeFileSync(path.join(folder, 'packaging', name), text);
  }
  await execa('sh', [path.join(folder, 'packaging', 'checksums.sh')]);
  return folder;
}

/** Installs from there over an older version. `programs` come before those of the machine. */
async function install(folder: string, programs: Readonly<Record<string, string>> = {}) {
  const to = path.join(folder, 'bin');
  const first = path.join(folder, 'first');
  for (const each of [to, first]) mkdirSync(each);
  writeFileSync(path.join(to, 'safemigrate'), 'older');
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(path.join(first, name), `#!/bin/sh\n${text}\n`);
    chmodSync(path.join(first, name), 0o755);
  }
  const words = [path.join(folder, 'packaging', 'install.sh'), path.join(folder, 'release'), to];
  const ended = await execa('sh', words, {
    env: { PATH: `${first}:/usr/bin:/bin`, FOLDER: folder },
    extendEnv: false,
    reject: false,
  });
  const installed = readFileSync(path.join(to, 'safemigrate'), 'utf8');
  return { ...ended, installed, files: readdirSync(to) };
}

describe('install.sh', () => {
  test('verifies the file of this machine, and puts it in the place of the older version', async () => {
    const { exitCode, stdout, installed, files } = await install(await release());
    expect([exitCode, files]).toEqual([0, ['safemigrate']]);
    expect(stdout).toMatch(new RegExp(`^safemigrate 1\\.2\\.3-${HERE} is .*/bin/safemigrate$`));
    expect(installed).toContain(`echo 1.2.3-${HERE}`);
  });

  const spoiled: [string, (folder: string) => void, RegExp][] = [
    [
      'another content',
      (folder) =>
        writeFileSync(path.join(folder, `safemigrate-1.2.3-${HERE}.gz`), gzipSync('#!/bin/sh\necho other\n')),
      /is not the file that SHA256SUMS names/,
    ],
    [
      'a download that was cut',
      (folder) => truncateSync(path.join(folder, `safemigrate-1.2.3-${HERE}.gz`), 30),
      /is not the file that SHA256SUMS names/,
    ],
    [
      'another sum',
      (folder) => {
        const sums = path.join(folder, 'SHA256SUMS');
        writeFileSync(sums, readFileSync(sums, 'utf8').replaceAll(/^[0-9a-f]{64}/gm, '0'.repeat(64)));
      },
      /is not the file that SHA256SUMS names/,
    ],
    [
      'a file that is missing',
      (folder) => rmSync(path.join(folder, `safemigrate-1.2.3-${HERE}.gz`)),
      /\.gz is missing/,
    ],
    ['no SHA256SUMS', (folder) => rmSync(path.join(folder, 'SHA256SUMS')), /has no SHA256SUMS/],
    [
      'two versions',
      (folder) => {
        const sums = readFileSync(path.join(folder, 'SHA256SUMS'), 'utf8');
        writeFileSync(path.join(folder, 'SHA256SUMS'), sums + sums.replaceAll('1.2.3', '1.2.4'));
      },
      /does not name one executable for/,
    ],
    [
      'no sums',
      (folder) => writeFileSync(path.join(folder, 'SHA256SUMS'), ''),
      /does not name one executable for/,
    ],
  ];
  test.each(spoiled)('%s: nothing is installed', async (_, spoil, why) => {
    const folder = await release();
    spoil(path.join(folder, 'release'));
    const { exitCode, stderr, installed, files } = await install(folder);
    expect([exitCode, installed, files]).toEqual([1, 'older', ['safemigrate']]);
    expect(stderr).toMatch(why);
  });

  test('a file that does not run on this machine: nothing is installed', async () => {
    const folder = await release({ begins: 'exit 1\n' });
    const { exitCode, stderr, installed, files } = await install(folder);
    expect([exitCode, installed, files]).toEqual([1, 'older', ['safemigrate']]);
    expect(stderr).toMatch(/does not run on this machine; nothing was installed/);
  });

  test('a folder that cannot be written: nothing is installed', async () => {
    const folder = await release();
    const words = [path.join(folder, 'packaging', 'install.sh'), path.join(folder, 'release'), '/proc'];
    const { exitCode, stderr } = await execa('sh', words, { reject: false });
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/install\.sh: \/proc cannot be written; nothing was installed$/),
    ]);
  });

  test.each([
    ['gh', `attestation verify .*/SHA256SUMS --bundle .*/SHA256SUMS.sigstore.json --repo ${SIGNER}$`],
    [
      'cosign',
      `verify-blob-attestation --bundle .*/SHA256SUMS.sigstore.json .*github\\\\\\.com/${SIGNER}/.*/SHA256SUMS$`,
    ],
  ])('%s, if it is there, has to confirm the signature', async (name, words) => {
    const says = (code: number) =>
      `case "$*" in *--help) ;; *) echo "$@" >> "$FOLDER/calls"; exit ${code} ;; esac`;
    const hidden = name === 'cosign' ? { gh: 'exit 1' } : {};
    const refused = await release({ signedBy: SIGNER });
    const { exitCode, stderr, installed } = await install(refused, { ...hidden, [name]: says(1) });
    expect([exitCode, installed]).toEqual([1, 'older']);
    expect(stderr).toContain(`${name} did not confirm that ${SIGNER} signed SHA256SUMS`);
    expect(readFileSync(path.join(refused, 'calls'), 'utf8').trim()).toMatch(new RegExp(words));
    const confirmed = await install(await release({ signedBy: SIGNER }), { ...hidden, [name]: says(0) });
    expect(confirmed.exitCode, confirmed.stderr).toBe(0);
  });
});

describe('the formula for Homebrew', () => {
  /** Of this version, and what it is made of. */
  async function formula(version: string) {
    const folder = path.join(await release(), 'release');
    const repository = `https://code.example/${SIGNER}`;
    const sums = path.join(folder, 'SHA256SUMS');
    const words = [path.join(PACKAGING, 'homebrew.sh'), repository, version, sums];
    const { exitCode, stdout } = await execa('sh', words, { reject: false });
    return { exitCode, stdout, repository, sums: readFileSync(sums, 'utf8') };
  }

  test('has the sum of each file that it names', async () => {
    const { stdout, repository, sums } = await formula('1.2.3');
    const named = [...stdout.matchAll(/url "(.*)\/([^/]+)"\n\s*sha256 "(.*)"/g)];
    expect(named.map(([, address, file]) => `${address} ${file}`)).toEqual(
      ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64'].map(
        (place) => `${repository}/releases/download/v1.2.3 safemigrate-1.2.3-${place}.gz`,
      ),
    );
    for (const [, , file, sum] of named) expect(sums).toContain(`${sum}  ${file}\n`);
    expect(stdout).not.toContain('@');
  });

  test('is not written for a version without files', async () => {
    expect(await formula('1.2.4')).toMatchObject({ exitCode: 1, stdout: '' });
  });

  test.skipIf(skipReason(noRuby))('is Ruby', async () => {
    const { stdout } = await execa('ruby', ['-c'], { input: (await formula('1.2.3')).stdout });
    expect(stdout).toBe('Syntax OK');
  });
});
