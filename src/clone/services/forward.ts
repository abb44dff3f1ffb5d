import { spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../../errors.ts';
import { withoutPasswords } from '../../ownership/shell-command.ts';
import type { Scope } from '../../scope.ts';
import type { CloneService } from './clone-service.ts';

const START_TIMEOUT_MS = 60_000;
const HOST = '127.0.0.1';
/** Ends the program with our end of its input, so that it also ends if we are killed. */
const UNTIL_INPUT_ENDS =
  '"$@" </dev/null & child=$!; exec >&- 2>&-; cat >/dev/null; kill "$child"; wait "$child"';

/**
 * Runs the service's program as a forwarder of a port to the clone, until the end of the run. Its first output has the port.
 * @throws SafemigrateError `CLONE` if it ends, or names no port.
 */
export async function forwardTo(
  { program, title }: Pick<CloneService, 'program' | 'title'>,
  args: readonly string[],
  scope: Scope,
  signal: AbortSignal,
): Promise<{ host: string; port: number }> {
  const child = spawn('/bin/sh', ['-c', UNTIL_INPUT_ENDS, 'sh', program, ...args], {
    // Ctrl-C at a terminal is for us.
    detached: true,
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  child.stdin.on('error', () => {});
  await scope.own(
    `connection to ${title}`,
    async () => {},
    () => {
      child.stdin.end();
      return ended;
    },
  );
  let printed = '';
  const port = new Promise<number>((resolve) => {
    for (const output of [child.stdout, child.stderr])
      output.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        const [, found] = printed.match(/127\.0\.0\.1:(\d+)/) ?? [];
        if (found !== undefined) resolve(Number(found));
      });
    child.stdout.once('close', () => resolve(0));
  });
  const found = await Promise.race([port, delay(START_TIMEOUT_MS, 0, { signal, ref: false })]);
  if (found !== 0) return { host: HOST, port: found };
  const lines = withoutPasswords(printed).trim();
  throw new SafemigrateError('CLONE', `\`${program} ${args[0]}\` named no port${lines && `:\n  ${lines}`}`, {
    hint: 'The target was not touched.',
  });
}
