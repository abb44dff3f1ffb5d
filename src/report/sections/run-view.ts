import { formatBytes, formatDuration, formatTime, listed, plural } from '../../format.ts';
import { isolatedFrom, UNTRUSTED_WORDS } from '../../hazards/attempt-words.ts';
import { historyCommands } from '../../hazards/empty-history.ts';
import type { Report } from '../../model/report.ts';
import { containmentText, isolationText, serviceWords } from '../isolation-phrases.ts';
import { commandDid, unprovedWords } from '../phrases.ts';
import { tone } from '../text-layout.ts';
import {
  factList,
  type Item,
  named,
  type PerhapsFact,
  type Phrase,
  type PhrasePart,
  type Section,
  sql,
} from '../view/section.ts';

const NARROW = 70;
const REDACTED =
  'redacted: ? stands for a literal and … for a host, so that some of the SQL does not run as shown; safemigrate show has all of it';

/** The target, the clone, the command and the run. */
export function runView(report: Report): Section {
  const { run, command, target } = report;
  const items = noteItems(report);
  const tookMs = Math.max(0, Date.parse(run.finishedAt) - Date.parse(run.startedAt));
  return {
    id: 'run',
    title: 'Run',
    summary: [sql(shellLine(command.argv)), ' on a clone of ', named(target.database)],
    folds: items.length > 0 ? 'never' : 'in-comment',
    importance: 6,
    blocks: [
      factList([
        ...targetFacts(report),
        ...cloneFacts(report),
        ...commandFacts(report),
        [
          'Run',
          `${run.id}, ${run.mode}, ${formatDuration(tookMs)} in all, ${run.tool.name} ${run.tool.version}`,
        ],
        ['Run', `started ${formatTime(run.startedAt)}`],
        ['Run', run.redacted ? REDACTED : null],
      ]),
      { kind: 'items', items },
    ],
  };
}

/** The command line as a shell would take it. */
export function shellLine(argv: readonly string[]): string {
  return argv.map(shellWord).join(' ');
}

/** Quotes a word only if a shell needs it, so that the line can be pasted. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function targetFacts(report: Report): PerhapsFact[] {
  const { database, host, port, serverVersion, sizeBytes, source, touched, origin } = report.target;
  if (origin === 'dump') return [['Target', restoredPhrase(report)]];
  return [
    [
      'Target',
      [
        named(database),
        ` on ${host}:${port}, PostgreSQL ${serverVersion}, ${formatBytes(sizeBytes)}, from ${source}`,
      ],
    ],
    ['Target', targetState(report)],
    ['Target', touched.length === 0 ? null : `safemigrate itself: ${touched.join('; ')}`],
  ];
}

/** A dump took the target's place: its server was made for the run, and has ended with it. */
export function restoredPhrase({ target }: Report): Phrase {
  const { database, serverVersion, sizeBytes, source } = target;
  return [
    named(database),
    ` from ${source}, restored on PostgreSQL ${serverVersion} for this run, ${formatBytes(sizeBytes)}`,
  ];
}

/** Says whether the target is unchanged: the question behind every rehearsal. */
function targetState(report: Report): Phrase {
  const { changes } = report.target;
  if (changes.some(({ madeBy }) => madeBy === 'command'))
    return [tone('alarm', 'CHANGED BY THE COMMAND, see above')];
  if (changes.some(({ madeBy }) => madeBy === 'unknown'))
    return [tone('alarm', 'CHANGED, BY WHOM IS UNKNOWN, see above')];
  const others = changes.flatMap(({ what, madeBy }) => (madeBy === 'others' ? [what] : [])).join(', ');
  return [
    unprovedWords(report) === undefined
      ? 'unchanged by the rehearsal'
      : tone('warning', 'could not be verified, see above'),
    others === '' ? '' : `; changed by other sessions: ${others}`,
  ];
}

function cloneFacts(report: Report): PerhapsFact[] {
  const { clone, target } = report;
  const { method, strategy, durationMs, sizeBytes, uniqueBytes, reason, kept, database } = clone;
  const size = sizeBytes === null ? '' : `, ${formatBytes(sizeBytes)}`;
  const own = uniqueBytes === null ? '' : `, takes ${formatBytes(uniqueBytes)} of its own`;
  return [
    [
      'Clone',
      [
        `${method} (${strategy}) in ${formatDuration(durationMs)}${size}${own}`,
        ...(kept ? ['; kept as ', named(database)] : []),
      ],
    ],
    ['Clone', `chosen: ${reason}`],
    ['Clone', target.origin === 'dump' ? null : containmentText(clone)],
    ['Clone', serviceWords(report)],
  ];
}

function commandFacts({ command, statements }: Report): PerhapsFact[] {
  const { isolation, reachedClone } = command;
  const succeeded = command.exitCode === 0 && command.signal === null && !command.timedOut;
  const sessions = new Set(statements.map(({ session }) => session)).size;
  const reached = `reached the clone${waysOf(command)}${sessions > 1 ? ` in ${sessions} sessions` : ''}`;
  return [
    ['Command', [tone(succeeded ? 'good' : 'bad', commandDid(command))]],
    ['Command', reachedClone ? reached : null],
    ['Command', untriedWords(command)],
    ['Command', isolationText(isolation)],
    ['Command', isolatedFrom(isolation)],
  ];
}

function waysOf({ byAddress, rewritten, added }: Report['command']): string {
  const address = byAddress ? " at the target's own address" : '';
  return address + (rewritten.length === 0 ? offered(added) : ` through ${rewritten.join(', ')}`);
}

/** Says whose passwords the target may refuse all the same; null if all were tried. */
function untriedWords({ untriedPasswords = [] }: Report['command']): PhrasePart[] | null {
  if (untriedPasswords.length === 0) return null;
  const roles = untriedPasswords.flatMap((role, index) => [index === 0 ? '' : ', ', named(role)]);
  return ['any password was let in, so none was tried: ', ...roles];
}

/** Names the variables by which safemigrate led a command that named nothing itself. */
function offered(added: readonly string[]): string {
  return added.length === 0 ? '' : ` (safemigrate set ${listed(added)})`;
}

/** Statements that were refused, allowed or redirected, and contradictions between the exit code and the server. */
export function noteItems({ command, target }: Report): Item[] {
  const { refused, redirected, swallowedErrors, failedWithoutError, leftRunning, undecided } = command;
  const allowed = listed([...new Set(command.allowed)]);
  const warning = (...text: readonly PhrasePart[]): Item => ({ mark: 'warning', text });
  const failed = `${plural(swallowedErrors.length, 'statement')} failed in the server (${listed(swallowedErrors.map(String))})`;
  return [
    ...(command.reachedClone ? [] : [{ mark: 'bad', text: neverReached(command) } satisfies Item]),
    ...historyItems(command.emptyHistory ?? [], target),
    ...refused.map(({ what, why }): Item => ({ mark: 'bad', text: ['not run: ', sql(what), `, ${why}`] })),
    ...(allowed === '' ? [] : [warning(`allowed, although it takes effect outside the clone: ${allowed}`)]),
    ...(redirected.length === 0
      ? []
      : [
          {
            text: `redirected to the clone (it named the target database): ${listed([...new Set(redirected)])}`,
          },
        ]),
    ...(swallowedErrors.length === 0 ? [] : [warning(`${failed}, but the command ended with exit code 0`)]),
    ...leftRunning.map(({ command: program, pid }) =>
      warning('left running: ', sql(program), ` (pid ${pid})`),
    ),
    ...(failedWithoutError ? [{ text: 'none of its statements failed in the server' }] : []),
    ...undecided.map(({ name, reason }): Item => ({ text: ['not rewritten: ', named(name), `, ${reason}`] })),
  ];
}

/** The commands by which the tool would continue after its last migration. */
function historyItems(tables: readonly string[], target: Report['target']): Item[] {
  if (tables.length === 0) return [];
  const text = `to rehearse the next migration alone, ${target.origin === 'dump' ? 'make the dump with these rows' : 'load these rows'}, from the database that has them:`;
  return [
    { text, notes: [{ text: '', sql: historyCommands(tables, target).flatMap(narrow), language: 'sh' }] },
  ];
}

/** Divides a long command for sh into lines that can be pasted from a terminal. */
function narrow(command: string): string[] {
  return command.length <= NARROW ? [command] : command.replaceAll(/ (?=--table=|"\$)/g, ' \\\n').split('\n');
}

function neverReached({ byAddress, rewritten, added, leftForTls, leftForTrust }: Report['command']): string {
  if (leftForTrust) return `never connected to the clone: ${UNTRUSTED_WORDS}`;
  if (leftForTls && byAddress)
    return 'never connected to the clone: it demands TLS, which the target does not offer';
  if (leftForTls)
    return 'never connected to the clone: it demands TLS, and the proxy on this machine speaks without it';
  if (byAddress)
    return `never connected to the clone, which was at the target's own address${offered(added)}`;
  const why =
    rewritten.length === 0
      ? `: nothing in its arguments, its environment and .env named the target${offered(added)}`
      : `, although ${rewritten.join(', ')} ${rewritten.length === 1 ? 'points' : 'point'} to it`;
  return `never connected to the clone${why}`;
}
