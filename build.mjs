// npm run build: types by tsc, programs by rolldown, and the JSON Schema of the report, into dist/.
//
// Loading 300 small files takes longer than making a small clone, so each program is bundled with our own code and with
// what is listed under devDependencies; what is listed under dependencies stays outside, for its users to update.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'rolldown';

const root = import.meta.dirname;
/** Made beside dist and then put in its place, so that what runs meanwhile finds one or the other. */
const made = path.join(root, 'node_modules', '.cache', `dist-${process.pid}`);
const dist = path.join(root, 'dist');
const { dependencies, optionalDependencies } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

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
const common = {
  platform: 'node',
  // pg would use pg-native where somebody asks for it, and nobody does.
  external: [/^node:/, 'pg-native', ...Object.keys({ ...dependencies, ...optionalDependencies })],
  transform: { target: 'node20.19' },
};
const output = {
  dir: made,
  // A third of what is parsed at each start goes. Functions keep their names, for the sake of stack traces.
  minify: {
    compress: false,
    mangle: { toplevel: false, keepNames: true },
    codegen: { removeWhitespace: true },
  },
  comments: { legal: false },
  entryFileNames: '[name].js',
  chunkFileNames: 'chunks/[name]-[hash].js',
};
const inSrc = (files) =>
  Object.fromEntries(files.map((file) => [file.replace(/\.ts$/, ''), path.join(root, 'src', file)]));
// Threads and processes of their own: each is one file.
const alone = [
  'schema/worker.ts',
  'swap/reopen-agent-process.ts',
  'cli/demo/migrate.ts',
  'report/report-schema.ts',
];
const pieces = together([
  ['version', ['src/cli/main.ts']],
  ['help', ['src/cli/dispatch.ts']],
  ['run', ['src/cli/commands/run-command-line.ts']],
  ['pg', ['node_modules/pg/esm/index.mjs', 'node_modules/pg/lib/crypto/utils.js']],
  ['clone', ['src/rehearsal/on-clone.ts']],
]);
const built = await Promise.all([
  build({
    ...common,
    input: inSrc(['index.ts', 'cli/main.ts']),
    plugins: [pieces.plugin],
    output: { ...output, codeSplitting: { groups: pieces.groups } },
  }),
  ...alone.map((file) =>
    build({ ...common, input: inSrc([file]), output: { ...output, codeSplitting: false } }),
  ),
]);
const inputs = built.flatMap((each) => each.output.flatMap(({ moduleIds = [] }) => moduleIds));
const { reportJsonSchema } = await import(path.join(made, 'report', 'report-schema.js'));
writeFileSync(path.join(made, 'report.schema.json'), `${JSON.stringify(reportJsonSchema(), null, 2)}\n`);
writeFileSync(path.join(made, 'THIRD-PARTY-LICENSES'), licences(inputs));

rmSync(dist, { recursive: true, force: true });
renameSync(made, dist);

/**
 * Whatever is loaded at one moment goes into one file, since finding 40 small ones takes as long as all else that a start
 * does.
 * @param moments in the order in which they come: a name, and the modules that are needed then. What an
 * earlier moment has loaded is not loaded again.
 */
function together(moments) {
  const names = new Map();
  const plugin = {
    name: 'together',
    buildEnd() {
      for (const [name, files] of moments) {
        const visit = (id) => {
          const info = this.getModuleInfo(id);
          if (names.has(id) || !info || info.isExternal) return;
          names.set(id, info.isEntry ? null : name);
          for (const imported of info.importedIds) visit(imported);
        };
        for (const file of files) visit(path.join(root, file));
      }
    },
  };
  const groups = moments.map(([name], index) => ({
    name,
    priority: moments.length - index,
    test: (id) => names.get(id) === name,
  }));
  return { plugin, groups };
}

/** Types that nobody comes to from those of the package are of no use, and name packages that are bundled. */
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

/** Of every package of which something was bundled. @param inputs paths, relative to the root. */
function licences(inputs) {
  const folders = new Set(inputs.flatMap((file) => /^\/.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []));
  return [...folders].sort().map(licence).join('\n');
}

function licence(folder) {
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  const { name, version, license, author } = JSON.parse(
    readFileSync(path.join(folder, 'package.json'), 'utf8'),
  );
  // A package without the text says at least whose it is.
  const text =
    file === undefined ? `By ${author?.name ?? author}.` : readFileSync(path.join(folder, file), 'utf8');
  return `${name} ${version} (${license})\n\n${text.trim()}\n`;
}
