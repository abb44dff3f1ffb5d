import type { DetectedTool, ProjectFiles } from './detect-tool.ts';

/** A file to write, from the top of the project. */
export interface InitFile {
  readonly file: string;
  readonly text: string;
}

/** The configuration with a policy to edit, and the job of the CI service that the project uses. */
export function initFiles(tool: DetectedTool, project: ProjectFiles): InitFile[] {
  return [
    { file: 'safemigrate.config.mjs', text: configText(tool) },
    ...(usesGithub(project) ? [{ file: '.github/workflows/safemigrate.yml', text: workflowText(tool) }] : []),
  ];
}

/** What to add to a GitLab pipeline by hand, since it is in one file with everything else; undefined if there is none. */
export function gitlabLines(tool: DetectedTool, project: ProjectFiles): string | undefined {
  if (!project.exists('.gitlab-ci.yml')) return undefined;
  return `include: [{ local: templates/safemigrate.yml }]   # copy it from safemigrate's repository
safemigrate:
  variables: { COMMAND_LINE: '${tool.command}' }
`;
}

/** The command that rehearses. */
export function firstCommand({ command, needsUrl }: DetectedTool): string {
  return `safemigrate ${needsUrl ? '--url "$DATABASE_URL" ' : ''}-- ${command}`;
}

function usesGithub(project: ProjectFiles): boolean {
  return project.list('.github').length > 0 || /github\.com/.test(project.text('.git/config'));
}

function configText({ urlEnv, name }: DetectedTool): string {
  return `// Options of safemigrate for this project, which uses ${name}. All of them: safemigrate --help all
// An option is its flag in camelCase: --max-lock is maxLock. Flags and SAFEMIGRATE_* variables take precedence.
export default {
  // The variable that holds the URL of the database.
  urlEnv: '${urlEnv}',

  // Hazards of this severity fail a rehearsal: 'error' or 'warning'.
  failOn: 'error',

  // The longest time that a lock may be held; the second one is for one table.
  // maxLock: ['ACCESS EXCLUSIVE=2s', 'public.audit_log:ACCESS EXCLUSIVE=30s'],

  // The longest time that the whole migration may take.
  // maxDuration: '10m',

  // A hazard that was agreed on, with the reason for those who read it later, and a last day.
  // allow: [{ code: 'COLUMN_DROPPED', relation: 'public.users', reason: 'unused since May', until: '2027-01-31' }],

  // The running application's queries: with pg_stat_statements on the target they are checked without this.
  // queries: 'test/queries.sql',
};
`;
}

function workflowText({ command, folder, urlEnv }: DetectedTool): string {
  return `# Rehearses the migrations of a pull request on a clone, and reports in a comment.
name: Migrations
on:
  pull_request:
    paths: ['${folder}/**']
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
      # Install what the migration command needs here.
      - uses: your-organisation/safemigrate@v0   # pin it to a commit
        with:
          # One of the two: a dump that is in the repository or was downloaded in a step above, or a database in reach.
          from: test/dump.sql
          # url: \${{ secrets.${urlEnv} }}
          command: ${command}
`;
}
