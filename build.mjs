// npm run build: types by tsc, programs by esbuild, and the JSON Schema of the report, into dist/.
//
// Loading 300 small files takes longer than making a small clone, so each program is bundled with our own code and with
// what is listed under devDependencies; what is listed under dependencies stays outside, for its users to update.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

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
  ...{ bundle: true, format: 'esm', platform: 'node', target: 'node20.19', metafile: true },
  // Half of what is left is white space, and parsing it takes 30 ms of each run. Names stay, for the sake of stack traces.
  ...{ minifyWhitespace: true, minifySyntax: true },
  ...{ absWorkingDir: root, outbase: path.join(root, 'src'), outdir: made, chunkNames: 'chunks/[hash]' },
  // pg would use pg-native where somebody asks for it, and nobody does.
  external: ['pg-native', ...Object.keys({ ...dependencies, ...optionalDependencies })],
  // Some of what is bundled is CommonJS, and asks for modules of Node.
  banner: {
    js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
  },
  logLevel: 'warning',
};
const inSrc = (files) => files.map((file) => path.join(root, 'src', file));
// What shares code is loaded in more and smaller pieces: so threads and processes of their own share none.
const alone = ['schema/worker.ts', 'swap/guard-process.ts', 'cli/demo/migrate.ts', 'report/schema.ts'];
const built = await Promise.all([
  build({ ...common, entryPoints: inSrc(['index.ts', 'cli/main.ts']), splitting: true }),
  build({ ...common, entryPoints: inSrc(alone) }),
]);
const inputs = built.flatMap(({ metafile }) => Object.keys(metafile.inputs));
const { reportJsonSchema } = await import(path.join(made, 'report', 'schema.js'));
writeFileSync(path.join(made, 'report.schema.json'), `${JSON.stringify(reportJsonSchema(), null, 2)}\n`);
writeFileSync(path.join(made, 'THIRD-PARTY-LICENSES'), licences(inputs));

rmSync(dist, { recursive: true, force: true });
renameSync(made, dist);

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
  const folders = new Set(inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []));
  return [...folders].sort().map(licence).join('\n');
}

function licence(folder) {
  const file = readdirSync(path.join(root, folder)).find((name) => /^licen[cs]e/i.test(name));
  const { name, version, license, author } = JSON.parse(
    readFileSync(path.join(root, folder, 'package.json'), 'utf8'),
  );
  // A package without the text says at least whose it is.
  const text =
    file === undefined
      ? `By ${author?.name ?? author}.`
      : readFileSync(path.join(root, folder, file), 'utf8');
  return `${name} ${version} (${license})\n\n${text.trim()}\n`;
}
