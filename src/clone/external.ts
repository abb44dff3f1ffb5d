import { setTimeout as delay } from 'node:timers/promises';
import { inspectTarget } from '../database/inspect.ts';
import { compareByText, comparer } from '../database/same-target.ts';
import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import type { Caveat } from '../model/report.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import {
  destroyExternal,
  type ExternalEntry,
  externalVariables,
  writeExternal,
} from '../ownership/external-clones.ts';
import { MadeDatabases } from '../ownership/made-databases.ts';
import { ourStamp } from '../ownership/process-stamp.ts';
import { runShell } from '../ownership/shell-command.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { withoutPassword } from '../postgres/connection/connection-text.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { lostServer, ownControl } from './own-sessions.ts';

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
/** Time that a new server may take to answer. */
const PATIENCE_MS = 60_000;
const TRY_EVERY_MS = 500;

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
  const { run, audit, options, target } = context;
  if (!options.external) throw new Error('assess() has reported that no commands are configured');
  const { create: command, destroy } = options.external;
  let entry = await newEntry(context, destroy);
  let printed = '';
  const clean = async () => {
    if (!entry.kept) await destroyExternal({ ...entry, url: printed });
  };
  await scope.own('external clone', () => writeExternal(entry), clean);
  const url = await runCreate(context, command, entry);
  const there = await inspectPatiently(context, url);
  const isolation = await isolationOf(context, there);
  // Only after it is known not to be the target: --clone-destroy would remove whatever the record names.
  printed = url;
  entry = { ...entry, url };
  await writeExternal(entry);
  const control = await ownControl(context, there, scope);
  control.onLost((reason) => context.fail(lostServer(reason)));
  const made = new MadeDatabases(run, control, async () => {});
  await scope.own(
    'databases beside the clone',
    async () => {},
    async () => {
      for (const name of made.names)
        if ((await made.ownershipStatus(name)) === 'made')
          await control.query(`DROP DATABASE ${identifier(name)} WITH (FORCE)`);
    },
  );
  return {
    method: 'external',
    strategy: assessment.strategy,
    isolation,
    containment: isolation === 'same-cluster' ? 'target-server' : 'other-server',
    reason: assessment.reason,
    database: there.database.name,
    oid: there.database.oid,
    connect: there.settings,
    sharesRoles: false,
    server: { control, open: (purpose) => openMaintenanceSession(there, { run, audit, purpose }) },
    marking: () => null,
    made,
    durationMs: performance.now() - started,
    stallMs: 0,
    notCarried: [],
    touched: ['the command of --clone-create was run; its effects on the target, if any, are not known'],
    caveats: caveatsOf(target, there),
    uniqueBytes: async () => ({ unmeasured: 'the space that an external clone takes is not known here' }),
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

async function inspectPatiently({ audit, signal, target }: CloneContext, url: string): Promise<Target> {
  const settings = parseUrl(url);
  if (compareByText(settings, target.settings)?.kind === 'same') throw isTarget();
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await inspectTarget(settings, '--clone-create', { audit, signal });
    } catch (error) {
      const mayPass = error instanceof SafemigrateError && error.code === 'CONNECTION';
      if (!mayPass || performance.now() >= deadline) throw error;
      await delay(TRY_EVERY_MS, undefined, { signal });
    }
  }
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

/**
 * Checks that the URL is not the target's. A branch or snapshot of the target has its system identifier, but another start time.
 * @throws SafemigrateError `CLONE` for the target itself, and if that cannot be ruled out.
 */
async function isolationOf({ target, signal }: CloneContext, there: Target): Promise<Clone['isolation']> {
  const verdict = await comparer(target.settings, signal)(there.settings);
  switch (verdict.kind) {
    case 'same':
      throw isTarget();
    case 'other-database':
      return 'same-cluster';
    case 'other-server':
      return 'own-cluster';
    case 'undecided': {
      const { systemIdentifier } = there.server;
      if (systemIdentifier !== null && systemIdentifier === target.server.systemIdentifier)
        return 'own-cluster';
      throw new SafemigrateError(
        'CLONE',
        `It cannot be decided whether --clone-create printed the URL of a database other than the target: ${verdict.reason}.`,
        { hint: 'Nothing was done to that database.' },
      );
    }
  }
}

function isTarget(): SafemigrateError {
  return new SafemigrateError('CLONE', '--clone-create printed the URL of the target itself.', {
    hint:
      'It must print the URL of the clone that it created. Nothing was done to the target; --clone-destroy is run with an ' +
      'empty SAFEMIGRATE_CLONE_URL.',
  });
}

function caveatsOf(target: Target, there: Target): Caveat[] {
  const reasons = [
    "the clone was made elsewhere, by a command: its data may be older, settings, hardware and load differ from the target's",
  ];
  if (there.server.version !== target.server.version)
    reasons.push(
      `its server is PostgreSQL ${there.server.version}, and the target's ${target.server.version}`,
    );
  if (there.settings.user !== target.settings.user)
    reasons.push(`the command connects there as ${there.settings.user}, not as ${target.settings.user}`);
  return reasons.map((reason) => ({ path: 'clone', kind: 'estimate', reason }));
}
