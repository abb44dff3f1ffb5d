// npm run build: types by tsc, programs by rolldown, and the JSON Schema of the report, into dist/.
//
// Our own code is bundled, because loading 400 small files takes longer than making a small clone. Packages stay outside as
// real dependencies, so that audits see them and users can update them. Bundled are pg-delta, pinned, while it is an alpha, and
// the parts of zod/mini that check our own marks: each run loads these, in 10 ms instead of 55 with all of zod's files.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'rolldown';

const BUNDLED = ['@supabase/pg-delta', 'zod/mini'];
const BUNDLED_PACKAGES = ['@supabase/pg-delta', 'zod'];
const PROGRAMS = [
  'index.ts',
  'cli/main.ts',
  'cli/demo/migrate.ts',
  'command/sandbox/launcher.ts',
  'report/report-schema.ts',
  'postgres/sql/parser-thread.ts',
  'schema/worker.ts',
  'swap/reopen-agent-process.ts',
];

const SCRIPTS = [
  'clone/private/sandbox.sh',
  'command/sandbox/landlock.pl',
  'command/sandbox/landlock.py',
  'local-server/first-state.sh',
  'local-server/folder-cleaner.sh',
  'local-server/reaper.sh',
];

const root = import.meta.dirname;
const dist = path.join(root, 'dist');
/** The build is made beside dist and then put in its place, so that a program started at the same time finds one or the other. */
const made = path.join(root, 'node_modules', '.cache', `dist-${process.pid}`);

const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const types = spawnSync(process.execPath, [tsc, '-p', 'src', '--outDir', made], {
  cwd: root,
  stdio: 'inherit',
});
if (types.status !== 0) {
  rmSync(made, { recursive: true, force: true });
  process.exit(1);
}
keepReachable(path.join(made, 'index.d.ts'));

const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const outside = Object.keys(dependencies);
const { output } = await build({
  platform: 'node',
  external: (id) => !BUNDLED.includes(id) && outside.some((name) => id === name || id.startsWith(`${name}/`)),
  transform: { target: 'node20.19' },
  input: Object.fromEntries(
    PROGRAMS.map((file) => [file.replace(/\.ts$/, ''), path.join(root, 'src', file)]),
  ),
  output: {
    dir: made,
    sourcemap: true,
    comments: { legal: false },
    chunkFileNames: 'chunks/[name]-[hash].js',
  },
});
const inside = output.flatMap(({ moduleIds = [] }) => moduleIds).filter((id) => id.includes('node_modules'));
const undeclared = inside.find(
  (id) => !BUNDLED_PACKAGES.some((name) => id.includes(`/node_modules/${name}/`)),
);
if (undeclared) throw new Error(`${undeclared} would be bundled: is its package missing in "dependencies"?`);
for (const file of SCRIPTS) cpSync(path.join(root, 'src', file), path.join(made, file), { recursive: true });
const { reportJsonSchema, profileJsonSchema, upgradeJsonSchema } = await import(
  path.join(made, 'report', 'report-schema.js')
);
writeFileSync(path.join(made, 'report.schema.json'), `${JSON.stringify(reportJsonSchema(), null, 2)}\n`);
writeFileSync(path.join(made, 'profile.schema.json'), `${JSON.stringify(profileJsonSchema(), null, 2)}\n`);
writeFileSync(path.join(made, 'upgrade.schema.json'), `${JSON.stringify(upgradeJsonSchema(), null, 2)}\n`);
writeFileSync(path.join(made, 'THIRD-PARTY-LICENSES'), BUNDLED_PACKAGES.map(licence).join('\n'));

// As npm leaves it when it installs the package.
chmodSync(path.join(made, 'cli/main.js'), 0o755);

rmSync(dist, { recursive: true, force: true });
renameSync(made, dist);

/** Removes declarations that the package's own types do not lead to: they name packages that are bundled. */
function keepReachable(first) {
  const reached = new Set();
  const visit = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, name] of readFileSync(file, 'utf8').matchAll(/(?:from |import\()['"](\.[^'"]+)\.ts['"]/g))
      visit(path.join(path.dirname(file), `${name}.d.ts`));
  };
  visit(first);
  for (const name of readdirSync(made, { recursive: true })) {
    const file = path.join(made, name);
    if (file.endsWith('.d.ts') && !reached.has(file)) rmSync(file);
  }
}

function licence(name) {
  const folder = path.join(root, 'node_modules', name);
  const { version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  return `${name} ${version} (${license})\n\n${readFileSync(path.join(folder, 'LICENSE'), 'utf8').trim()}\n`;
}
