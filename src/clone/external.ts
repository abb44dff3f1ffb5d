import { SafemigrateError } from '../errors.ts';
import {
  destroyExternal,
  type ExternalEntry,
  externalVariables,
  writeExternal,
} from '../ownership/external-clones.ts';
import { ourStamp } from '../ownership/process-stamp.ts';
import { runShell } from '../ownership/shell-command.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { withoutPassword } from '../postgres/connection/connection-text.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { Scope } from '../scope.ts';
import { openElsewhere, reachElsewhere } from './elsewhere.ts';
import { differencesElsewhere } from './elsewhere-differences.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from './method.ts';

/** Clones by a command of the user, elsewhere (a branch, a thin clone); another command removes the clone. */
export const external: CloneMethod = {
  id: 'external',
  assess: async (context) => assess(context),
  create,
  describe: async ({ options }) => [
    `-- run: ${options.external?.create ?? ''}`,
    `-- run: ${options.external?.destroy ?? ''}`,
  ],
};

/** An estimate: branches of hosted services take about this long. */
const READY_MS = 30_000;
const CREATE_TIMEOUT_MS = 30 * 60_000;

const TELLER = {
  source: '--clone-create',
  says: '--clone-create printed',
  afterwards: '--clone-destroy is run with an empty SAFEMIGRATE_CLONE_URL.',
};
const MADE_ELSEWHERE =
  "the clone was made elsewhere, by a command: its data may be older, settings, hardware and load differ from the target's";

function assess({ options }: CloneContext): Assessment {
  if (!options.external) {
    return {
      possible: false,
      reason: 'no command is configured that creates a clone elsewhere',
      enable: '--clone-create and --clone-destroy (cloneCreate and cloneDestroy in the configuration)',
    };
  }
  return {
    possible: true,
    strategy: 'command',
    readyMs: READY_MS,
    stallMs: 0,
    bytes: 0,
    endsSessions: false,
    asked: true,
    isolation: 'own-cluster',
    containment: 'other-server',
    reason: 'created by the command of --clone-create',
  };
}

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const started = performance.now();
  const { options } = context;
  if (!options.external) throw new Error('assess() has reported that no commands are configured');
  const { create: command, destroy } = options.external;
  let entry = await newEntry(context, destroy);
  let printed = '';
  const clean = async () => {
    if (!entry.kept) await destroyExternal({ ...entry, url: printed });
  };
  await scope.own('external clone', () => writeExternal(entry), clean);
  const url = await runCreate(context, command, entry);
  const reached = await reachElsewhere(context, parseUrl(url), TELLER);
  // Only after it is known not to be the target: --clone-destroy would remove the database that the record names.
  printed = url;
  entry = { ...entry, url };
  await writeExternal(entry);
  const opened = await openElsewhere(context, reached, scope);
  return {
    ...opened,
    method: 'external',
    strategy: assessment.strategy,
    reason: assessment.reason,
    durationMs: performance.now() - started,
    touched: ['the command of --clone-create was run; its effects on the target, if any, are not known'],
    caveats: await differencesElsewhere(context, reached.there, [MADE_ELSEWHERE]),
    async keep() {
      entry = { ...entry, kept: true };
      await writeExternal(entry);
      context.emit({ type: 'notice', message: `the clone is kept: ${withoutPassword(url)}` });
    },
  };
}

async function newEntry({ run, target }: CloneContext, destroy: string): Promise<ExternalEntry> {
  const [place] = target.settings.hosts;
  return {
    version: 1,
    run,
    destroy,
    folder: process.cwd(),
    url: '',
    kept: false,
    owner: await ourStamp(),
    target: { host: place?.host ?? '', port: String(place?.port ?? ''), database: target.database.name },
  };
}

/** Runs --clone-create. @returns the last line that it prints and that is not empty. @throws SafemigrateError `CLONE` */
async function runCreate(
  { signal, emit }: CloneContext,
  command: string,
  entry: ExternalEntry,
): Promise<string> {
  emit({ type: 'phase', phase: 'clone', detail: 'by the command of --clone-create' });
  const { stdout, failure } = await runShell({
    command,
    folder: entry.folder,
    signal,
    variables: externalVariables(entry),
    timeoutMs: CREATE_TIMEOUT_MS,
  });
  signal.throwIfAborted();
  const url = stdout.trim().split('\n').at(-1)?.trim() ?? '';
  if (failure === null && url !== '') return url;
  throw new SafemigrateError(
    'CLONE',
    failure === null ? '--clone-create printed no URL.' : `--clone-create ${failure}`,
    {
      hint:
        "The last line of its output must be the clone's URL. safemigrate itself did not touch the target; " +
        '--clone-destroy is run with an empty SAFEMIGRATE_CLONE_URL.',
    },
  );
}

/** Parses the clone's URL. Our PG* variables, which describe the target, do not complete it. */
function parseUrl(url: string): ConnectionSettings {
  const { HOME } = process.env;
  try {
    return parseSettings(url, readEnvironment({ HOME }, process.cwd()));
  } catch (error) {
    if (!(error instanceof SafemigrateError)) throw error;
    throw new SafemigrateError('CLONE', `--clone-create printed no URL of a database: ${error.message}`);
  }
}
