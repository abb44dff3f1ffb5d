import { githubJob, gitlabJob, LIBRARY_NOTE, shellJob } from './ci-jobs.ts';
import { type DetectedTool, outsideServices } from './detect-tool.ts';
import type { ProjectFiles } from './project-files.ts';

const CONFIG = 'safemigrate.config.json';
const GITHUB_JOB = '.github/workflows/safemigrate.yml';
const GITLAB_PIPELINE = '.gitlab-ci.yml';
const GITLAB_JOB = '.gitlab/safemigrate.yml';
const SHELL_JOB = 'safemigrate-ci.sh';

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
    const job = { file: GITLAB_JOB, text: gitlabJob(tool, project) };
    if (!project.exists(GITLAB_PIPELINE))
      return { files: [config, job, { file: GITLAB_PIPELINE, text: include }], notes };
    return { files: [config, job], notes: [...notes, `Add to ${GITLAB_PIPELINE}: ${include.trimEnd()}`] };
  }
  const why =
    remotes.length === 0 ? 'has no remote' : `is on neither GitHub nor GitLab: ${remotes.join(', ')}`;
  const script = { file: SHELL_JOB, text: shellJob(tool) };
  return { files: [config, script], notes: [...notes, `The repository ${why}. Run ${SHELL_JOB} in its CI.`] };
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
