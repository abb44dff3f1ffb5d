import type { Clone, CloneContext } from '../clone/method.ts';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { type CommandInput, type Logins, rewriteCommand } from '../command/rewrite.ts';
import type { CommandResult } from '../command/run-command.ts';
import { messageOf } from '../errors.ts';
import { inPhase } from '../events.ts';
import type {
  Caveat,
  FurtherRunSection,
  SchemaSection,
  StatementSection,
  TargetConnection,
} from '../model/report.ts';
import { type Contents, compareContents, readContents } from '../observe/checks/contents.ts';
import { type Aim, aimAtAfter, aimAtBefore, type SchemaResult } from '../observe/checks/schema-again.ts';
import { RehearsalGate } from '../observe/clone-boundary/rehearsal-gate.ts';
import { watchCommand } from '../observe/command-watch.ts';
import { runWatched } from '../observe/contact.ts';
import { type AuthorOf, authorship } from '../observe/own-transactions.ts';
import { relationNames } from '../observe/relation-names.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { RehearseOptions } from './run-options.ts';
import { contactOptions, guardOptions, sharesServer, toRun, wireOptions } from './slices.ts';

/** A command, and where it knows the target from. */
export interface ExtraCommand {
  readonly input: CommandInput;
  readonly logins: Logins;
}

export interface FurtherOptions {
  readonly scope: Scope;
  readonly stop: Stop;
  readonly options: RehearseOptions;
  readonly context: CloneContext;
  readonly clone: Clone;
  readonly schema: SchemaWatch;
  /** The migration command. */
  readonly command: ExtraCommand;
  /** The way back; null where none was given. */
  readonly down: ExtraCommand | null;
}

export interface Further {
  readonly rerun: FurtherRunSection | null;
  readonly down: FurtherRunSection | null;
  readonly targetConnections: readonly TargetConnection[];
  readonly authors: readonly AuthorOf[];
  readonly statements: readonly StatementSection[];
  readonly caveats: readonly Caveat[];
}

/** What follows the migration on its clone, if it was asked for: the command once more, then the way back. */
export interface FurtherRuns {
  /** There is anything to follow. */
  readonly asked: boolean;
  /** Remembers what the way back has to lead to. */
  before(): Promise<void>;
  /** @param schema what the migration did; null where it could not be compared. */
  run(result: CommandResult, schema: SchemaSection | null): Promise<Further>;
}

type Asked = 'rerun' | 'down';

/** For reading the contents of many tables at once. */
const STATEMENT_TIMEOUT_MS = 300_000;

export function furtherRuns(it: FurtherOptions): FurtherRuns {
  const { options, stop, context, clone, schema, command, down } = it;
  const caveats: Caveat[] = [];
  const targetConnections: TargetConnection[] = [];
  const statements: StatementSection[] = [];
  const authors: AuthorOf[] = [];
  let contentsBefore: Contents | undefined;

  async function inClone<T>(read: (session: Session) => Promise<T>): Promise<T> {
    const { run, audit, signal } = context;
    const session = await openSession(clone.connect, {
      purpose: 'clone',
      run,
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      audit,
      signal,
      readOnly: true,
    });
    try {
      return await read(session);
    } finally {
      await session.close();
    }
  }

  /** What could not be done ends neither the run nor the other of the two. */
  async function attempt(
    path: Asked,
    work: () => Promise<FurtherRunSection>,
  ): Promise<FurtherRunSection | null> {
    try {
      return await inPhase(context.emit, path, work);
    } catch (error) {
      caveats.push({ path, kind: 'unmeasured', reason: messageOf(error) });
      return null;
    }
  }

  /** Runs one of the two through a proxy of its own, and compares what it left with what it should have. */
  async function once(order: ExtraCommand, aim: Aim, contents: Contents): Promise<FurtherRunSection> {
    const guard = new RehearsalGate(guardOptions(context, clone, options));
    const wire = await watchCommand(it.scope, wireOptions(context, clone, order.logins, guard, options));
    const rewritten = rewriteCommand(order.input, order.logins, wire.routes);
    // Standard output is that of the migration alone.
    const run = toRun(rewritten, stop, { ...options, commandStdout: 'stderr' });
    const known = authors.push(() => ({ who: 'unknown' })) - 1;
    const ran = await stop.pausedDuring(() => runWatched(run, contactOptions(context, clone)));
    await wire.end();
    targetConnections.push(...ran.targetConnections);
    caveats.push(...ran.caveats);
    if (options.signal?.aborted) throw new Error(INTERRUPTED);
    const names = await inClone((session) => relationNames(session, wire.lockedRelations()));
    const seen = await wire.statements(names, null);
    statements.push(...seen.statements);
    const schemaResult = await inClone((session) => aim.reached(session));
    authors[known] = await authorship(wire.own, ran.newcomers, sharesServer(context, clone));
    const compared = compareContents(contents, await inClone(readContents));
    const words = commandWithoutSecrets(order.input.argv, order.logins.logins);
    return sectionOf(ran.result, {
      command: order === down ? (words.at(-1) ?? '') : words.join(' '),
      reachedClone: wire.reached(),
      refused: guard.refused,
      statements: seen.statements,
      ...schemaResult,
      ...compared,
    });
  }

  return {
    asked: options.rerun === true || down !== null,
    async before() {
      if (!down) return;
      try {
        contentsBefore = await inClone(readContents);
      } catch (error) {
        caveats.push({ path: 'down', kind: 'unmeasured', reason: messageOf(error) });
      }
    },
    async run(result, section) {
      const none = { rerun: null, down: null, targetConnections, authors, statements, caveats };
      const mayFollow = () => {
        const reason = whyNot(result, targetConnections, options.signal);
        if (reason !== null) throw new Error(reason);
      };
      const again = options.rerun
        ? await attempt('rerun', async () => {
            mayFollow();
            const contents = await inClone(readContents);
            return once(command, await inClone((session) => aimAtAfter(session, schema, section)), contents);
          })
        : null;
      const then = contentsBefore;
      const back =
        down && then
          ? await attempt('down', () => {
              mayFollow();
              return once(down, aimAtBefore(schema), then);
            })
          : null;
      return { ...none, rerun: again, down: back };
    },
  };
}

const INTERRUPTED = 'the run was interrupted';

function whyNot(
  { exitCode }: CommandResult,
  targetConnections: readonly TargetConnection[],
  interrupt: AbortSignal | undefined,
): string | null {
  if (interrupt?.aborted) return INTERRUPTED;
  if (targetConnections.length > 0) return 'the second run connected to the target itself';
  return exitCode === 0 ? null : 'the command did not succeed, so that nothing could follow it';
}

type Compared = SchemaResult & ReturnType<typeof compareContents>;

function sectionOf(
  { exitCode, signal, timedOut, durationMs }: CommandResult,
  seen: Compared & Pick<FurtherRunSection, 'command' | 'reachedClone' | 'refused' | 'statements'>,
): FurtherRunSection {
  const against = [...seen.differences, ...seen.dataDifferences].filter(({ bookkeeping }) => !bookkeeping);
  const compared = seen.schemaEqual !== null;
  const passed = exitCode === 0 && compared && seen.refused.length === 0 && against.length === 0;
  return { ...seen, refused: [...seen.refused], exitCode, signal, timedOut, durationMs, passed };
}
