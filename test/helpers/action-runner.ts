import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { type CliResult, runProgram } from './cli.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Step {
  readonly id?: string;
  readonly if?: string;
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly 'working-directory'?: string;
}

export interface ActionRun {
  /** Of the step that failed, or 0. */
  readonly exitCode: number | null;
  readonly printed: string;
  readonly summary: string;
  /** What the step that keeps the artifact would have taken. */
  readonly artifact: readonly string[];
}

/**
 * Runs the steps of action.yml one after the other, as a runner does: expressions are replaced, each step gets a shell and its own
 * variables, outputs come from a file, and the first step that fails ends it.
 * @param given the inputs of a workflow. @param folder has the project. @param place is for the runner's files.
 */
export async function runAction(
  given: Readonly<Record<string, string>>,
  folder: string,
  place: string,
  env: NodeJS.ProcessEnv,
): Promise<ActionRun> {
  const action = parse(readFileSync(path.join(ROOT, 'action.yml'), 'utf8'));
  const inputs = Object.entries<{ default?: string }>(action.inputs).map(([name, input]) => [
    `inputs.${name}`,
    given[name] ?? input.default ?? '',
  ]);
  const known = new Map<string, string>([
    ...(inputs as [string, string][]),
    ['github.token', 'token'],
    ['github.action_path', ROOT],
    ['github.event_name', 'pull_request'],
  ]);
  const temp = path.join(place, 'temp');
  mkdirSync(temp, { recursive: true });
  const files = {
    GITHUB_OUTPUT: path.join(place, 'output'),
    GITHUB_STEP_SUMMARY: path.join(place, 'summary'),
  };
  for (const file of Object.values(files)) writeFileSync(file, '');
  const base = {
    ...env,
    ...files,
    RUNNER_TEMP: temp,
    GITHUB_ACTION_PATH: ROOT,
    GITHUB_ACTIONS: 'true',
    CI: 'true',
  };
  let [printed, artifact]: [string, string[]] = ['', []];
  let ended: CliResult['exitCode'] = 0;
  for (const step of action.runs.steps as Step[]) {
    if (step.if !== undefined && !isTrue(step.if, known)) continue;
    if (step.uses !== undefined) {
      artifact = readdirSync(replaced(step.with?.path ?? '', known)).sort();
      continue;
    }
    writeFileSync(files.GITHUB_OUTPUT, '');
    const own = Object.entries(step.env ?? {}).map(([name, value]) => [name, replaced(value, known)]);
    const at = step['working-directory'];
    const result = await runProgram(
      ['bash', '--noprofile', '--norc', '-eo', 'pipefail', '-c', step.run ?? ''],
      {
        folder: at === undefined ? folder : replaced(at, known),
        env: { ...base, ...Object.fromEntries(own) },
      },
    );
    printed += result.stdout + result.stderr;
    for (const [, name = '', value = ''] of readFileSync(files.GITHUB_OUTPUT, 'utf8').matchAll(
      /^([\w-]+)=(.*)$/gm,
    ))
      known.set(`steps.${step.id}.outputs.${name}`, value);
    ended = result.exitCode;
    if (ended !== 0) break;
  }
  const summary = existsSync(files.GITHUB_STEP_SUMMARY)
    ? readFileSync(files.GITHUB_STEP_SUMMARY, 'utf8')
    : '';
  return { exitCode: ended, printed, summary, artifact };
}

/** @throws Error for an expression that is none of those that a runner knows here. */
function replaced(text: string, known: ReadonlyMap<string, string>): string {
  return text.replace(/\$\{\{ *(.*?) *\}\}/g, (_, name: string) => {
    const value = known.get(name);
    if (value === undefined) throw new Error(`the runner does not know ${name}`);
    return value;
  });
}

function isTrue(condition: string, known: ReadonlyMap<string, string>): boolean {
  return condition.split(' && ').every((part) => {
    const [, name = '', operator, value] = /^([\w.]+) (==|!=) '(.*)'$/.exec(part) ?? [];
    return (known.get(name) === value) === (operator === '==');
  });
}
