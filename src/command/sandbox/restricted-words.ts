import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { shippedFile } from '../../package.ts';
import { systemProgram } from './sandbox-words.ts';

// The words of the ways to restrict a command that need no namespaces: it may connect over TCP to some ports, whatever the host,
// and to no others. So these ports have to be known before it starts.

export type Restriction = 'landlock' | 'sandbox-exec';

/** Number of the system call prctl; those of Landlock are the same everywhere. */
const PRCTL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 157, arm64: 167 };

/** @returns the words before the program, or why there are none. */
export function landlockWords(ports: readonly number[]): string[] | string {
  const prctl = PRCTL[process.arch];
  if (process.platform !== 'linux' || prctl === undefined)
    return `it is not tried on ${process.platform}/${process.arch}`;
  const [perl, python] = [systemProgram('perl'), systemProgram('python3')];
  const given = [String(prctl), ports.join(',')];
  const script = (name: string) => fileURLToPath(shippedFile(`command/sandbox/landlock.${name}`));
  if (perl) return [perl, script('pl'), ...given];
  // It follows no variables, and loads nothing of the working folder.
  if (python) return [python, '-I', '-S', script('py'), ...given];
  return 'it needs perl or python3';
}

/** Variables that perl itself follows. */
const OF_PERL = /^PERL|^LC_ALL$/;

/** The environment for a program behind Landlock's words, which give it these variables back. */
export function keptEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  const renamed = Object.entries(env).map(([name, value]) => [
    OF_PERL.test(name) ? `SAFEMIGRATE_KEPT_${name}` : name,
    value,
  ]);
  return { ...Object.fromEntries(renamed), LC_ALL: 'C' };
}

const SANDBOX_EXEC = '/usr/bin/sandbox-exec';

/** The same on macOS, which also closes all Unix sockets but that of the resolver. Untried. */
export function sandboxExecWords(ports: readonly number[]): string[] | string {
  if (process.platform !== 'darwin' || !existsSync(SANDBOX_EXEC)) return 'it is part of macOS';
  const allowed = ports.map((port) => `(remote tcp "*:${port}")`).join(' ');
  const profile = `(version 1) (allow default) (deny network-outbound)
    (allow network-outbound ${allowed} (literal "/private/var/run/mDNSResponder"))`;
  return [SANDBOX_EXEC, '-p', profile];
}
