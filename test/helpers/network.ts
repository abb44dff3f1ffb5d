import { execFileSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';

/** A network of its own (a namespace), with one cable to this machine. */
export interface Network {
  /** This machine's, as it is called there. */
  readonly address: string;
  /** Words that run a program there when they stand before it. */
  readonly inside: readonly string[];
  /** Pulls the cable: from now on nothing arrives on either side, and nobody is told. */
  cut(): void;
  restore(): void;
  /** Idempotent. */
  remove(): void;
}

const ip = (...words: string[]) => execFileSync('ip', words, { stdio: 'pipe' });

/** Why no such network can be made here; null where it can. */
export function networkObstacle(): string | null {
  try {
    makeNetwork().remove();
    return null;
  } catch {
    return 'network namespaces need root and `ip` of iproute2';
  }
}

export function makeNetwork(): Network {
  const name = `sm-${randomBytes(4).toString('hex')}`;
  // A network that is kept free for tests of networks.
  const base = `198.18.${randomInt(256)}`;
  const first = randomInt(63) * 4;
  const [here, there] = [`${base}.${first + 1}`, `${base}.${first + 2}`];
  let [connected, removed] = [false, false];
  const remove = () => {
    if (removed) return;
    removed = true;
    // A program that still runs there keeps the namespace, which has lost its name, and the cable in it.
    if (connected) ip('link', 'del', name);
    ip('netns', 'del', name);
  };
  ip('netns', 'add', name);
  try {
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'cable', 'netns', name);
    connected = true;
    ip('addr', 'add', `${here}/30`, 'dev', name);
    ip('link', 'set', name, 'up');
    ip('-n', name, 'addr', 'add', `${there}/30`, 'dev', 'cable');
    ip('-n', name, 'link', 'set', 'cable', 'up');
    ip('-n', name, 'link', 'set', 'lo', 'up');
  } catch (error) {
    remove();
    throw error;
  }
  return {
    address: here,
    inside: ['ip', 'netns', 'exec', name],
    cut: () => void ip('link', 'set', name, 'down'),
    restore: () => void ip('link', 'set', name, 'up'),
    remove,
  };
}
