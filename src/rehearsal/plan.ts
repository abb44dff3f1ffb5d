import { EventEmitter } from 'node:events';
import type { CloneOptions } from '../clone/clone-settings.ts';
import type { Interrupts } from '../command/run-command.ts';
import { parseAllowedPlaces } from '../command/sandbox/allowed-places.ts';
import type { SandboxPlan } from '../command/sandbox/command-sandbox.ts';
import { refuseOutsideRunners } from '../command/sandbox/refuse-outside-runners.ts';
import { SafemigrateError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { fillIn, type PlanOf } from '../settings.ts';
import { REHEARSAL_SETTINGS, type RehearseOptions } from './rehearsal-settings.ts';

/** The ways in which a run talks to whoever started it. */
export interface RunPlan {
  readonly emit: Emit;
  /** Gets each statement that safemigrate itself sends. */
  readonly audit: Audit;
  /** Ends the run. */
  readonly signal: AbortSignal;
}

type Settings = PlanOf<typeof REHEARSAL_SETTINGS>;

/** Everything that a rehearsal goes by, with every default filled in. Each step gets the part that it needs. */
export interface RehearsalPlan extends RunPlan, Omit<Settings, 'clone' | 'load' | 'sandbox' | 'timeoutMs'> {
  readonly command: CommandPlan;
  readonly clone: CloneOptions;
  /** null: no run under load. */
  readonly load: LoadPlan | null;
}

export interface CommandPlan extends Pick<Settings, 'timeoutMs'> {
  /** Program first. */
  readonly argv: readonly string[];
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: 'inherit' | 'stderr';
  readonly interrupts: Interrupts;
  readonly interrupted: AbortSignal | undefined;
  /** For its runs on a clone. */
  readonly sandbox: SandboxPlan;
}

export type ChecksPlan = Settings['checks'];
export type ProxyPlan = Settings['proxy'];

export interface LoadPlan extends Omit<Settings['load'], 'what'> {
  /** Files with scripts for pgbench, `FILE.sql[@weight]`; none: the target's own transactions are played. */
  readonly scripts: readonly string[];
}

/** @throws SafemigrateError `CONFIGURATION` for options that do not fit together. */
export function makeRehearsalPlan(options: RehearseOptions): RehearsalPlan {
  const { timeoutMs, sandbox, clone, load, ...settings } = fillIn(REHEARSAL_SETTINGS, options);
  const { propose, proposeAll, proxy } = settings;
  if (proposeAll && propose === null)
    throw new SafemigrateError('CONFIGURATION', '--propose-all needs --propose.', {
      hint: 'Name what is to be written with --propose. Nothing was touched.',
    });
  const { command: argv, folder = process.cwd() } = options;
  return {
    ...makeRunPlan(options),
    ...settings,
    command: {
      argv,
      folder,
      env: options.env ?? process.env,
      stdout: options.commandStdout ?? 'inherit',
      timeoutMs,
      interrupts: options.interrupts ?? new EventEmitter(),
      interrupted: options.signal,
      sandbox: {
        ...makeSandboxPlan(sandbox, proxy, { argv, folder }),
        // An apply rewrites the words that name the target, and may use this receipt: the rehearsal has to reach the command the same way.
        byAddress: settings.receipt.file === null,
      },
    },
    clone: makeClonePlan(clone, settings, options),
    load: makeLoadPlan(load),
  };
}

function makeLoadPlan({ what, ...load }: Settings['load']): LoadPlan | null {
  if (what.length === 0 && load.command === null) return null;
  const scripts = what.filter((each) => each !== 'shapes');
  const isMixed = scripts.length > 0 && scripts.length < what.length;
  if (!isMixed && (what.length === 0 || load.command === null)) return { ...load, scripts };
  throw new SafemigrateError(
    'CONFIGURATION',
    '--load shapes, --load FILE.sql and --load-command do not go together.',
    {
      hint: 'Play what the target does, or scripts, or a command of your own. Nothing was touched.',
    },
  );
}

const ELSEWHERE = 'SAFEMIGRATE_PROXY_LISTEN is for a command in a container, which has a network of its own';

function makeSandboxPlan(
  { mode, allow: places }: Settings['sandbox'],
  { listen }: Settings['proxy'],
  command: Pick<CommandPlan, 'argv' | 'folder'>,
): Omit<SandboxPlan, 'byAddress'> {
  const allow = parseAllowedPlaces(places);
  const isElsewhere = listen !== REHEARSAL_SETTINGS.proxy.listen.default;
  if (mode === 'required' && isElsewhere)
    throw new SafemigrateError(
      'CONFIGURATION',
      '--sandbox required and SAFEMIGRATE_PROXY_LISTEN do not go together: a sandboxed command reaches no other address.',
      { hint: 'A command in a container has a network of its own: isolate it there. Nothing was touched.' },
    );
  if (mode !== 'off' && !isElsewhere) refuseOutsideRunners(command, allow);
  return { mode, allow, onlyWatched: isElsewhere ? ELSEWHERE : null };
}

export function makeRunPlan({ emit, audit, signal }: Partial<RunPlan>): RunPlan {
  return { emit: emit ?? ignore, audit: audit ?? ignore, signal: signal ?? new AbortController().signal };
}

function makeClonePlan(
  { at, external: { create, destroy }, ...clone }: Settings['clone'],
  { target: { from }, receipt }: Pick<Settings, 'target' | 'receipt'>,
  given: RehearseOptions,
): CloneOptions {
  if ((create === null) !== (destroy === null)) throw halfOfAPair();
  const isAlone = clone.method === 'auto' && from === null && receipt.file === null;
  return {
    ...clone,
    // No session is at work on a server that was made for this run.
    method: given.clone?.method ?? (from === null ? clone.method : 'template'),
    at: makePointInTime(at, isAlone),
    external: create === null || destroy === null ? null : { create, destroy },
  };
}

/** @param isAlone nothing is asked for that does not go with it. Proof for other data must not permit an apply. */
function makePointInTime(
  { time, baseBackup, restoreCommand }: Settings['clone']['at'],
  isAlone: boolean,
): CloneOptions['at'] {
  if (time === null && baseBackup === null && restoreCommand === null) return null;
  if (time !== null && baseBackup !== null && isAlone) return { time, baseBackup, restoreCommand };
  throw new SafemigrateError(
    'CONFIGURATION',
    '--clone-at needs --base-backup, and goes with none of --clone, --dump and --receipt.',
    {
      hint: 'safemigrate --clone-at latest --base-backup DIR -- <command>; SAFEMIGRATE_RESTORE_COMMAND fetches from the archive. Nothing was touched.',
    },
  );
}

/** For plans of what changes the target. @throws SafemigrateError `CONFIGURATION` for a rehearsal as of another time */
export function asOfNow(plan: RehearsalPlan): RehearsalPlan {
  if (plan.clone.at === null) return plan;
  throw new SafemigrateError(
    'CONFIGURATION',
    'An apply or a swap needs a rehearsal on the target as it is now, and --clone-at names another time.',
    { hint: 'Leave --clone-at (SAFEMIGRATE_CLONE_AT, cloneAt) out. Nothing was touched.' },
  );
}

function halfOfAPair(): SafemigrateError {
  return new SafemigrateError(
    'CONFIGURATION',
    '--clone-create and --clone-destroy (clone.external in a program) go together.',
    { hint: 'Give both: what is made elsewhere has to be removed there. Nothing was touched.' },
  );
}

export function ignore(): void {}
