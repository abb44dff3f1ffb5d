import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type CodeBlock, codeBlocksOf } from '../helpers/documented-commands.ts';
import { makeReader, type Reader } from '../helpers/reader.ts';
import { inThisShare } from '../helpers/share.ts';
import { cannotUpgrade, NEW } from '../helpers/upgrading.ts';

/**
 * Runs what the pages tell their readers to run: each page from its first block to its last, in a project whose database is on a server
 * of PostgreSQL 15 in use. A block in `sh`, `sql`, `js` or `json` is run, unless ELSEWHERE says why it cannot be; what a call of safemigrate in the
 * others means is tried by unit/cli/documented-commands.test.ts, which also makes each block say what it is made of.
 */
const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(path.join(root, 'docs')).map((name) => `docs/${name}`),
]
  .filter((file) => file.endsWith('.md'))
  // test/services runs its commands, against fakes.
  .filter((file) => file !== 'docs/services.md');

/** What stands in the pages for what a reader has, and what takes its place here. */
const STAND_INS: readonly (readonly [written: string | RegExp, here: (reader: Reader) => string])[] = [
  // The same schema with a tool that `npm ci` installs; test/tools runs Prisma itself.
  ['npx prisma migrate deploy', () => 'npx knex migrate:latest'],
  // It has no history yet.
  ["'*._prisma_migrations'", () => "'*.accounts'"],
  // Nobody is there to answer.
  [/\b(apply|swap) --(?= )/g, () => '$1 --yes --'],
  [/safemigrate rollback\b/g, () => 'safemigrate rollback --yes'],
  ['postgresql://user@host/database', ({ url }) => url],
  ['postgresql://reader@db.internal/shop', ({ url }) => url],
  ['postgresql://postgres@localhost/shop', ({ url }) => url],
  ['SAFEMIGRATE_RECEIPT_KEY=…', () => 'SAFEMIGRATE_RECEIPT_KEY=0123456789abcdef0123456789abcdef'],
  ['clone --count 8 --keep-for 2h', () => 'clone --count 2 --keep-for 2h | tee urls'],
  ["'postgresql://…'", () => '"$(head -n 1 urls)"'],
  ["'2026-11-22 10:00+00'", ({ moment }) => `'${moment}'`],
  ['/backup/monday', ({ backup }) => backup],
  ['/archive', ({ archive }) => archive],
  // Ten seconds of looking at traffic, and all modes of an upgrade, are tried by other tests.
  [
    'safemigrate --load --',
    () => `${TRAFFIC}\nSAFEMIGRATE_LOAD_WINDOW=2s SAFEMIGRATE_LOAD_WARMUP=500ms safemigrate --load --`,
  ],
  ['upgrade --to 18', () => `upgrade --to 18 --new-bin ${NEW.programs} --modes link`],
  [
    "FROM orders\" -- psql -c 'ALTER EXTENSION postgis UPDATE'",
    () => "FROM accounts\" -- psql -c 'ALTER EXTENSION plpgsql UPDATE'",
  ],
];

/** Somebody at work on the database, until the block ends. */
const TRAFFIC = `yes 'BEGIN; UPDATE accounts SET balance = balance + 1 WHERE id = 1; SELECT pg_sleep(0.05); COMMIT;' 2> /dev/null |
  psql -q > /dev/null &
trap "kill $!" EXIT`;

/** Lines that are not run here, and blocks that begin with such a line: why, and who runs them. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'npm ci': 'installs this repository; .ci/run does it',
  'npm ci && npm run demo': 'the same; soak/packed.test.ts runs the demo on an empty machine',
  'npm ci && npm pack': 'the same; tools/package.test.ts packs',
  'cd ../your-project && npm install --save-dev ../safemigrate/safemigrate-0.2.0.tgz':
    'tools/package.test.ts installs the tarball',
  'npm install --global ../safemigrate/safemigrate-0.2.0.tgz': 'the same; soak/packed.test.ts, too',
  'npm test': 'the first step of .ci/run',
  'npm run test:all': 'this is a part of it',
  'safemigrate swap --online -- npx prisma migrate deploy':
    'needs wal_level = logical; swaps/online-swap.test.ts runs such swaps',
  'safemigrate swap --online --way-back 24h -- npx prisma migrate deploy':
    'the same; swaps/way-back.test.ts runs such swaps',
  'safemigrate swap --online --postpone-file swap.wait -- npx prisma migrate deploy':
    'the same; swaps/online-swap.test.ts gives such orders',
  'safemigrate swap --online --catch-up again.sql -- npx prisma migrate deploy':
    'the same; swaps/online-swap.test.ts has such files',
  'safemigrate cut-over': 'the same',
  'git worktree add ../old-release production': 'needs an old release of the project',
  "SAFEMIGRATE_APP_DIR=../old-release safemigrate --app 'npm ci && npm test' -- npx prisma migrate deploy":
    'the same; e2e/application.test.ts has one',
  'npm run check': 'a step of .ci/run',
  '# Programs that read a file only:':
    'needs Synapse and listmonk; isolation/configurations.test.ts has such files',
  'npx vitest run test/unit': 'a part of npm test',
  '# REPOSITORY is the address of an empty repository of your organisation:': 'pushes to a service of others',
  'podman build --tag safemigrate .':
    'needs an image from a registry; soak/packed.test.ts runs the steps of the Containerfile',
  '# DBLab Engine: a thin clone, with a login of its own. To create it:':
    'a service of others: the page says that it is not tested',
  '# ZFS: the first time everything, then what has changed. The receiving side is a dataset of its own.':
    'two machines with ZFS or btrfs',
};

const RUN = new Set(['sh', 'js', 'sql', 'json']);

interface Part extends CodeBlock {
  readonly page: string;
}

const PARTS: readonly Part[] = PAGES.flatMap((page) =>
  codeBlocksOf(read(page))
    .filter(({ language }) => RUN.has(language))
    .map((block) => ({ ...block, page })),
);

/** A line without the comment beside it. */
function commandOf(line: string): string {
  return line.startsWith('#') ? line : line.replace(/ +# .*/, '').trim();
}

/** What of a block in sh is run here. */
function linesToRun({ text }: Part): string {
  const lines = text.split('\n');
  if (/^#/.test(lines[0] ?? '') && ELSEWHERE[lines[0] ?? '']) return '';
  return lines.filter((line) => ELSEWHERE[commandOf(line)] === undefined).join('\n');
}

function hereOf(text: string, reader: Reader): string {
  return STAND_INS.reduce((shell, [written, here]) => shell.replaceAll(written, here(reader)), text);
}

test('whatever is not run here is in the pages, and its scripts are in package.json', () => {
  const lines = new Set(PARTS.flatMap(({ text }) => text.split('\n').map(commandOf)));
  expect(Object.keys(ELSEWHERE).filter((line) => !lines.has(line))).toEqual([]);
  const { scripts } = JSON.parse(read('package.json'));
  const named = Object.keys(ELSEWHERE).flatMap((line) => /npm run (\S+)/.exec(line)?.[1] ?? []);
  expect(named.filter((name) => !(name in scripts))).toEqual([]);
});

test.each(PARTS.filter(({ language }) => language === 'sh'))(
  'the block at $page:$line is a program for bash',
  ({ text }) => {
    const { status, stderr } = spawnSync('bash', ['-n'], { input: text, encoding: 'utf8' });
    expect(status, stderr).toBe(0);
  },
);

describe.skipIf(cannotUpgrade)('the commands of', () => {
  let reader: Reader;

  beforeAll(async () => {
    reader = await makeReader();
  }, 120_000);
  afterAll(() => reader?.stop());
  beforeEach(() => reader.refill());

  const pages = PAGES.filter((page) =>
    PARTS.some((part) => part.page === page && (part.language !== 'sh' || linesToRun(part).trim() !== '')),
  );

  test.each(inThisShare(pages, (page) => page === 'README.md'))(
    '%s do what the page says',
    { timeout: 120_000 },
    async (page) => {
      for (const part of PARTS.filter((each) => each.page === page)) {
        const lines = shellFor(part, reader);
        if (lines === '') continue;
        const { exitCode, stdout, stderr } = await reader.run(lines);
        expect(exitCode, `${page}:${part.line}\n${lines}\n${stdout}\n${stderr}`).toBe(0);
      }
    },
  );
});

/** What a block is for bash: its own lines, or a program that is given it. */
function shellFor(part: Part, reader: Reader): string {
  const { language, text } = part;
  if (language === 'sh') return hereOf(linesToRun(part), reader).trim();
  if (language === 'sql')
    return `psql -q -d postgres -c 'CREATE ROLE migrator' -c 'CREATE ROLE owner_of_the_database'\npsql -v ON_ERROR_STOP=1 -d postgres <<'END'\n${text}END`;
  // JSON is a configuration, or a part of a report.
  const config = /^export default/.test(text.replace(/^\/\/.*\n/, ''))
    ? 'mjs'
    : /"failOn"/.test(text)
      ? 'json'
      : null;
  if (config !== null)
    return `cat > safemigrate.config.${config} <<'END'\n${text}END\nsafemigrate --plan -- npx knex migrate:latest`;
  if (language === 'json') return '';
  const given = /\bimport\b/.test(text)
    ? ''
    : "import { rehearse } from 'safemigrate';\nconst command = ['npx', 'knex', 'migrate:latest'];\n";
  return `cat > program.mjs <<'END'\n${given}${text}END\nnode program.mjs`;
}
