import type { Result } from 'execa';
import type * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import { formatDuration } from '../../format.ts';
import { withoutPasswords } from '../../ownership/shell-command.ts';
import type { CallInput, CloneService, ServiceCli } from './clone-service.ts';

const SHOWN_LINES = 6;

/** An option with its values, or nothing without a value. */
export function optionIf(name: string, ...values: readonly (string | null | undefined)[]): string[] {
  const given = values.filter((value) => typeof value === 'string');
  return given.length === 0 ? [] : [name, ...given];
}

/** A size that a service tells in GB; undefined if it does not. */
export function bytesOfGb(size: number | string | null | undefined): number | undefined {
  return size ? Number(size) * 2 ** 30 : undefined;
}

/** The error for something that the service does not have, or that the login may not see. */
export function notFound(
  { title, program, login }: Pick<CloneService, 'title' | 'program' | 'login'>,
  what: string,
): SafemigrateError {
  return new SafemigrateError('CLONE', `${title} has no ${what} that ${program} may see.`, {
    hint: `Look with ${program} after \`${login}\`. SAFEMIGRATE_CLONE_OF names the source. The target was not touched.`,
  });
}

/**
 * The command line of a service, started directly and never by a shell.
 * @param limits.signal ends a call.
 * @param limits.graceMs time that a call may still take after that: its effect would come anyway.
 */
export function cliOf(
  { title, program, login }: Pick<CloneService, 'title' | 'program' | 'login'>,
  limits: { readonly timeoutMs: number; readonly signal?: AbortSignal; readonly graceMs?: number },
): ServiceCli {
  const text: ServiceCli['text'] = async (args, { input, env = {} } = {}) => {
    limits.signal?.throwIfAborted();
    const { execa } = await import('execa');
    const ending = new AbortController();
    const end = () => {
      if (!limits.graceMs) return ending.abort();
      setTimeout(() => ending.abort(), limits.graceMs).unref();
    };
    limits.signal?.addEventListener('abort', end, { once: true });
    try {
      const result = await execa(program, args, {
        reject: false,
        env,
        ...(input === undefined ? { stdin: 'ignore' } : { input }),
        timeout: limits.timeoutMs,
        cancelSignal: ending.signal,
        // Ctrl-C at a terminal is for us: we decide when the call ends.
        detached: true,
        cleanup: false,
      });
      if (result.exitCode === 0) return result.stdout;
      if (result.isCanceled) limits.signal?.throwIfAborted();
      throw failure(args, result);
    } finally {
      limits.signal?.removeEventListener('abort', end);
    }
  };

  function failure(
    args: readonly string[],
    result: Pick<Result, 'code' | 'exitCode' | 'signal' | 'timedOut'> & Output,
  ): SafemigrateError {
    if (result.code === 'ENOENT')
      return new SafemigrateError('CLONE', `${program}, the command line of ${title}, is not installed.`, {
        hint: `Install it and log in with \`${login}\`. The target was not touched.`,
      });
    const lines = shownOf(result).join('\n  ');
    const ended = result.timedOut
      ? `took longer than ${formatDuration(limits.timeoutMs)}`
      : `ended with ${result.exitCode ?? result.signal}`;
    return new SafemigrateError(
      'CLONE',
      `\`${verbOf(args)}\` ${ended}${lines === '' ? '.' : `:\n  ${lines}`}`,
      {
        hint: `If the login has expired, log in again with \`${login}\`; docs/services.md lists the rights that it needs. The target was not touched.`,
      },
    );
  }

  /** The call up to its first option, for messages. */
  function verbOf(args: readonly string[]): string {
    const first = args.findIndex((each) => each.startsWith('-'));
    return [program, ...args.slice(0, first === -1 ? 3 : first)].join(' ');
  }

  return {
    text,
    async json<T>(args: readonly string[], schema: z.ZodMiniType<T>, given?: CallInput): Promise<T> {
      const output = await text(args, given);
      const { data, error } = schema.safeParse(parsed(output));
      if (data !== undefined) return data;
      const [issue] = error?.issues ?? [];
      throw new SafemigrateError(
        'CLONE',
        `\`${verbOf(args)}\` printed something else than expected: ${issue?.path.join('.') || 'the whole'}: ${issue?.message ?? ''}`,
        { hint: `Another version of ${program} may be needed. The target was not touched.` },
      );
    },
  };
}

interface Output {
  readonly stdout: string;
  readonly stderr: string;
}

/** The last lines of a program that failed. doctl and pscale write an error to standard output, as JSON. */
function shownOf({ stdout, stderr }: Output): string[] {
  const [printed = [], said = []] = [stdout, stderr].map((text) =>
    withoutPasswords(text).trim().split('\n').filter(Boolean),
  );
  return [...printed.slice(0, SHOWN_LINES), ...said.slice(-SHOWN_LINES)];
}

function parsed(output: string): unknown {
  try {
    return JSON.parse(output);
  } catch {
    return undefined;
  }
}
