import { readFileSync } from 'node:fs';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { AllowedPlaces } from './allowed-places.ts';

/** A program that has others run its programs, outside of any sandbox of ours. */
interface OutsideRunner {
  readonly where: string;
  /** Words without which it runs nothing; empty: it always does. */
  readonly verbs: readonly string[];
  /** The kind of allowance that lets it through. */
  readonly through: 'sockets' | 'relays';
  readonly example: string;
}

const IN_CONTAINERS = {
  where: 'in containers outside of the sandbox',
  verbs: ['run', 'exec', 'up', 'start', 'create'],
  through: 'sockets',
} as const;
const DOCKER: OutsideRunner = { ...IN_CONTAINERS, example: '/var/run/docker.sock' };
const PODMAN: OutsideRunner = { ...IN_CONTAINERS, example: '/run/podman/podman.sock' };
const NERDCTL: OutsideRunner = { ...IN_CONTAINERS, example: '/run/containerd/containerd.sock' };
const SYSTEMD: OutsideRunner = {
  where: 'as a service of systemd, outside of the sandbox',
  verbs: [],
  through: 'sockets',
  example: '/run/systemd/private',
};
const DESKTOP: OutsideRunner = {
  where: 'outside of the sandbox',
  verbs: ['run', '--host'],
  through: 'sockets',
  example: '/run/snapd.socket',
};
const KUBERNETES: OutsideRunner = {
  where: 'on another machine',
  verbs: ['run', 'exec', 'create', 'apply'],
  through: 'relays',
  example: 'kubernetes.example:6443',
};
const REMOTE: OutsideRunner = {
  where: 'on another machine',
  verbs: [],
  through: 'relays',
  example: 'host.example:22',
};

const RUNNERS: Readonly<Record<string, OutsideRunner>> = {
  docker: DOCKER,
  'docker-compose': DOCKER,
  podman: PODMAN,
  'podman-compose': PODMAN,
  nerdctl: NERDCTL,
  'systemd-run': SYSTEMD,
  machinectl: SYSTEMD,
  snap: DESKTOP,
  'flatpak-spawn': DESKTOP,
  kubectl: KUBERNETES,
  oc: KUBERNETES,
  ssh: REMOTE,
};

const SHELLS = ['sh', 'bash', 'dash', 'zsh', 'ksh'];
/** They run the words behind them. */
const PREFIXES = ['env', 'exec', 'command', 'time', 'nice', 'nohup', 'sudo', 'doas'];
const PACKAGE_MANAGERS = ['npm', 'pnpm', 'yarn', 'bun'];
/** A script that calls a script that calls a script is followed no further. */
const DEEPEST = 4;

/**
 * Refuses a command that has its programs run by a daemon or on another machine: safemigrate can neither give them its clone nor keep
 * them from the target, which their own configuration names. Only what can be seen without running it is found: the command's own
 * words, those of `sh -c`, and scripts of package.json.
 * @throws SafemigrateError `CONFIGURATION`
 */
export function refuseOutsideRunners(
  command: { readonly argv: readonly string[]; readonly folder: string },
  allow: AllowedPlaces,
): void {
  const found = runnerIn(command.argv, command.folder, DEEPEST);
  if (found === undefined) return;
  const { name, runner } = found;
  if (allow[runner.through].length > 0) return;
  throw new SafemigrateError(
    'CONFIGURATION',
    `${name} runs its programs ${runner.where}: they would not get the clone, and might write to the target that their own configuration names.`,
    {
      hint:
        'Run the migration tool itself behind safemigrate; a container that can be given the connection gets it with SAFEMIGRATE_PROXY_LISTEN. ' +
        `--permit ${runner.example} lets ${name} through, and --sandbox off leaves everything to it. Nothing was touched.`,
    },
  );
}

interface FoundRunner {
  readonly name: string;
  readonly runner: OutsideRunner;
}

function runnerIn(words: readonly string[], folder: string, depth: number): FoundRunner | undefined {
  const [first = '', ...rest] = withoutPrefixes(words);
  if (depth === 0 || first === '') return undefined;
  const name = path.basename(first);
  const runner = Object.hasOwn(RUNNERS, name) ? RUNNERS[name] : undefined;
  if (runner && (runner.verbs.length === 0 || rest.some((word) => runner.verbs.includes(word))))
    return rest.length > 0 ? { name, runner } : undefined;
  const script = SHELLS.includes(name) ? scriptOf(rest) : packageScript(name, rest, folder);
  if (script !== undefined) return runnerInScript(script, folder, depth - 1);
  // `doppler run -- docker …`
  const at = rest.indexOf('--');
  return at < 0 ? undefined : runnerIn(rest.slice(at + 1), folder, depth - 1);
}

function runnerInScript(script: string, folder: string, depth: number): FoundRunner | undefined {
  for (const part of script.split(/[;&|\n()`]+|\b(?:then|do|else)\s/)) {
    const found = runnerIn(part.trim().split(/\s+/), folder, depth);
    if (found) return found;
  }
  return undefined;
}

function withoutPrefixes(words: readonly string[]): readonly string[] {
  const at = words.findIndex((word) => !PREFIXES.includes(path.basename(word)) && !/^\w+=/.test(word));
  return at < 0 ? [] : words.slice(at);
}

/** `-c`, `-ec`, `-lc`: the next word is a script. */
function scriptOf(args: readonly string[]): string | undefined {
  const at = args.findIndex((word) => /^-[a-z]*c$/.test(word));
  return at < 0 ? undefined : args[at + 1];
}

function packageScript(name: string, args: readonly string[], folder: string): string | undefined {
  if (!PACKAGE_MANAGERS.includes(name)) return undefined;
  const [called] = args.filter((word) => !word.startsWith('-') && word !== 'run' && word !== 'run-script');
  if (called === undefined) return undefined;
  try {
    const { scripts } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as {
      scripts?: Record<string, unknown>;
    };
    const script = scripts?.[called];
    return typeof script === 'string' ? script : undefined;
  } catch {
    return undefined;
  }
}
