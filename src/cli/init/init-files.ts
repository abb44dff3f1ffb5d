import { type DetectedTool, outsideServices } from './detect-tool.ts';
import { managerOf } from './node-tools.ts';
import type { ProjectFiles } from './project-files.ts';

const CONFIG = 'safemigrate.config.json';
const GITHUB_JOB = '.github/workflows/safemigrate.yml';
const GITLAB_PIPELINE = '.gitlab-ci.yml';
const GITLAB_JOB = '.gitlab/safemigrate.yml';
const LIBRARY_NOTE = 'its command is not in its files: replace `your-program migrate` by it';

/**
 * Plans the configuration, and the job of the CI service that the project uses.
 * @returns the files to write, from the top of the project, and notes: additions that are left to the user, and files that cannot be written, with the reason.
 */
export function planInit(
  tool: DetectedTool,
  project: ProjectFiles,
): {
  readonly files: readonly { readonly file: string; readonly text: string }[];
  readonly notes: readonly string[];
} {
  const { places, notes: services } = outsideServices(tool, project);
  const config = { file: CONFIG, text: configText(tool, places) };
  const library = tool.isLibrary ? [`The project's own program runs ${tool.name}; ${LIBRARY_NOTE}.`] : [];
  const notes = [...library, ...services];
  const remotes = [...project.text('.git/config').matchAll(/^\s*url\s*=\s*(\S+)/gm)].map(
    ([, url]) => url ?? '',
  );
  const isOn = (host: RegExp) => remotes.some((url) => host.test(url));
  if (project.list('.github').length > 0 || isOn(/github\./)) {
    const job = { file: GITHUB_JOB, text: githubJob(tool, project) };
    return { files: [config, job], notes };
  }
  if (project.exists(GITLAB_PIPELINE) || isOn(/gitlab/)) {
    const include = `include: [{ local: ${GITLAB_JOB} }]\n`;
    const job = { file: GITLAB_JOB, text: gitlabJob(tool) };
    if (!project.exists(GITLAB_PIPELINE))
      return { files: [config, job, { file: GITLAB_PIPELINE, text: include }], notes };
    return { files: [config, job], notes: [...notes, `Add to ${GITLAB_PIPELINE}: ${include.trimEnd()}`] };
  }
  const why =
    remotes.length === 0 ? 'the repository has no remote' : `it is on neither: ${remotes.join(', ')}`;
  const missing = `No CI job was written: init writes those of GitHub and GitLab, and ${why}. See docs/ci.md.`;
  return { files: [config], notes: [...notes, missing] };
}

/** The command that rehearses. */
export function firstCommand({ command, needsUrl }: DetectedTool): string {
  return `safemigrate ${needsUrl ? '--url "$DATABASE_URL" ' : ''}-- ${command}`;
}

/** Data instead of a program: every subcommand reads it, also those that execute nothing of the project. */
function configText({ urlEnv }: DetectedTool, places: readonly string[]): string {
  const permit = places.length === 0 ? undefined : places;
  return `${JSON.stringify({ urlEnv, failOn: 'error', permit }, null, 2)}\n`;
}

function githubJob(
  { command, folder, urlEnv, name, isLibrary }: DetectedTool,
  project: ProjectFiles,
): string {
  return `# Rehearses the migrations of a pull request on a clone, and reports in a comment.
name: Migrations
on:
  pull_request:${folder === undefined ? '' : `\n    paths: ['${folder}/**']`}
permissions:
  contents: read
  pull-requests: write
jobs:
  rehearse:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with: { node-version: 22 }
${installation(project)}
      - uses: your-organisation/safemigrate@v0   # pin it to a commit
        with:
          # One of the two: a dump that is in the repository or was downloaded in a step above, or a database in reach.
          from: test/dump.sql
          # url: \${{ secrets.${urlEnv} }}
${isLibrary ? `          # The project's own program runs ${name}; ${LIBRARY_NOTE}.\n` : ''}          command: ${command}
`;
}

/** The step that installs the migration tool, if a lock file or list of the project says how. */
function installation(project: ProjectFiles): string {
  const steps = {
    npm: ['npm ci'],
    pnpm: ['corepack enable', 'pnpm install --frozen-lockfile'],
    yarn: ['corepack enable', 'yarn install --immutable'],
    bun: ['npm install --global bun', 'bun install --frozen-lockfile'],
  };
  const manager = managerOf(project);
  const lines = manager
    ? steps[manager]
    : project.exists('requirements.txt')
      ? ['pip install -r requirements.txt']
      : [];
  if (lines.length === 0) return '      # Install what the migration command needs here.';
  return lines.map((line) => `      - run: ${line}`).join('\n');
}

function gitlabJob({ command, folder, name, isLibrary }: DetectedTool): string {
  const changes = folder === undefined ? '' : `\n      changes: ['${folder}/**/*']`;
  return `# Rehearses the migrations of a merge request on a clone, and reports in a note if GITLAB_TOKEN may write one (scope api).
# DATABASE_URL is the database to clone. SAFEMIGRATE_TARBALL is the path of safemigrate's package, made by \`npm pack\`.
safemigrate:
  image: node:22   # one that has what the migration command needs
  stage: test
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"${changes}
  variables:
${isLibrary ? `    # The project's own program runs ${name}; ${LIBRARY_NOTE}.\n` : ''}    COMMAND_LINE: '${command.replaceAll("'", "''")}'
  script:
    - mkdir -p reports
    - '[ -f "$SAFEMIGRATE_TARBALL" ] || { echo "SAFEMIGRATE_TARBALL is no file"; exit 2; }'
    - npm install --prefix /opt/safemigrate --no-audit --no-fund "$(realpath "$SAFEMIGRATE_TARBALL")"
    - >
      /opt/safemigrate/node_modules/.bin/safemigrate
      --report reports/safemigrate.md --report reports/safemigrate.html --report reports/safemigrate.xml
      -- sh -c "$COMMAND_LINE" || code=$?;
      if [ -e reports/safemigrate.md ]; then
      /opt/safemigrate/node_modules/.bin/safemigrate comment reports/safemigrate.md; fi;
      exit \${code:-0}
  artifacts:
    when: always
    paths: [reports/]
    reports: { junit: reports/safemigrate.xml }
`;
}
