import type { Phase, RunEvent } from '../events.ts';
import { formatBytes, formatCount, formatDuration } from '../format.ts';
import { visible } from '../report/visible.ts';
import { cutToWidth } from '../report/width.ts';
import { withoutCommands } from './ci/log-commands.ts';
import { styleOf, type TerminalStyle } from './style.ts';

/**
 * Turns a run's events into lines on a stream.
 *
 * On a terminal the innermost running phase has one live line: drawn without a line end, drawn again in place, and
 * erased before anything else is written. While the command runs there is none: the terminal is the command's.
 * Elsewhere, and for good, stay one line for each phase that took noticeably long, and every notice.
 */
export type ProgressDisplay = ReturnType<typeof progress>;

const NOTICEABLE_MS = 500;
const REDRAW_MS = 100;
const BAR_CELLS = 20;
/** Columns that a name has at the least. */
const LEAST_NAME = 8;
const ERASE_LINE = '\r\x1b[2K';

const WORDS: Record<Phase, { doing: string; done: string }> = {
  connect: { doing: 'Connecting', done: 'Connected' },
  inspect: { doing: 'Looking at the target', done: 'Looked at the target' },
  wait: { doing: 'Waiting for the target to be free', done: 'Waited for the target to be free' },
  clone: { doing: 'Cloning', done: 'Cloned' },
  before: { doing: 'Reading schema and data before', done: 'Read schema and data before' },
  command: { doing: 'Running the command', done: 'Ran the command' },
  after: { doing: 'Reading schema and data after', done: 'Read schema and data after' },
  'at-once': {
    doing: 'Running the command several times at once',
    done: 'Ran the command several times at once',
  },
  load: { doing: 'Running the command under load', done: 'Ran the command under load' },
  propose: { doing: 'Writing and proving a safer form', done: 'Wrote and proved a safer form' },
  rerun: { doing: 'Running the command again', done: 'Ran the command again' },
  down: { doing: 'Running the way back', done: 'Ran the way back' },
  app: { doing: "Running the application's checks", done: "Ran the application's checks" },
  initdb: { doing: 'Making a cluster of the new version', done: 'Made a cluster of the new version' },
  check: { doing: 'Checking with pg_upgrade', done: 'Checked with pg_upgrade' },
  upgrade: { doing: 'Upgrading a copy', done: 'Upgraded a copy' },
  'catch-up': { doing: 'Catching up with the target', done: 'Caught up with the target' },
  compare: { doing: 'Comparing rows', done: 'Compared rows with the target' },
  postponed: { doing: 'Waiting for the order to cut over', done: 'Waited for the order to cut over' },
  'cut-over': { doing: 'Waiting for a moment to cut over', done: 'Ready to cut over' },
  clean: { doing: 'Cleaning up', done: 'Cleaned up' },
};

/** The terminal is theirs. */
const OF_COMMANDS: ReadonlySet<Phase> = new Set(['command', 'rerun', 'down', 'at-once', 'app', 'load']);

interface Running {
  readonly phase: Phase;
  readonly detail: string | undefined;
  readonly since: number;
  progress?: Extract<RunEvent, { type: 'progress' }>;
}

export function progress(
  stream: Parameters<typeof styleOf>[0] & { write(text: string): unknown },
  style = styleOf(stream),
) {
  const running: Running[] = [];
  let timer: NodeJS.Timeout | undefined;
  let drawn = false;
  /** Words about a moment in which the command is silent. */
  let moment: ((style: TerminalStyle) => string) | undefined;

  function erase(): void {
    if (drawn) stream.write(ERASE_LINE);
    drawn = false;
  }

  function draw(): void {
    const current = running.at(-1);
    const narrow = { ...style, columns: Math.min(style.columns, stream.columns || style.columns) };
    const text = moment?.(narrow) ?? (current && liveLine(current, narrow));
    stream.write(`${drawn ? ERASE_LINE : ''}${text ?? ''}`);
    drawn = text !== undefined;
  }

  /** Draws, and keeps drawing for as long as there is something that may be shown live. */
  function watch(): void {
    clearInterval(timer);
    timer = undefined;
    const live =
      style.interactive &&
      running.length > 0 &&
      (moment !== undefined || !running.some(({ phase }) => OF_COMMANDS.has(phase)));
    if (live) {
      draw();
      timer = setInterval(draw, REDRAW_MS).unref();
    } else erase();
  }

  function print(text: string): void {
    erase();
    stream.write(withoutCommands(`${visible(text)}\n`));
  }

  function emit(event: RunEvent): void {
    if (event.type === 'phase') {
      running.push({ phase: event.phase, detail: event.detail, since: performance.now() });
    } else if (event.type === 'progress') {
      const current = running.findLast(({ phase }) => phase === event.phase);
      if (current) current.progress = event;
      // The timer shows it: a copy of many files reports more often than anybody can read.
      return;
    } else if (event.type === 'phase-end') {
      moment = undefined;
      const index = running.findLastIndex(({ phase }) => phase === event.phase);
      if (index >= 0) running.splice(index, 1);
      // Its error reports a failure.
      if (event.durationMs > NOTICEABLE_MS && !event.failed) print(doneLine(event, style));
    } else if (event.type === 'blocked') moment = (narrow) => blockedLine(event, narrow);
    else if (event.type === 'unblocked') moment = undefined;
    else if (event.passing && style.interactive) moment = (narrow) => cutLive(event.message, narrow);
    else print(`${style.unicode ? '•' : '*'} ${event.message}`);
    watch();
  }

  /** Erases the live line; call it before anything else writes to the terminal, and at the end of the run. */
  function finish(): void {
    running.length = 0;
    moment = undefined;
    watch();
  }

  return { emit, finish };
}

function doneLine(event: Extract<RunEvent, { type: 'phase-end' }>, style: TerminalStyle): string {
  const detail = event.detail === undefined ? '' : `: ${event.detail}`;
  const mark = style.unicode ? '✓' : '-';
  return `${mark} ${WORDS[event.phase].done} in ${formatDuration(event.durationMs)}${detail}`;
}

function liveLine({ phase, detail, since, progress }: Running, style: TerminalStyle): string {
  const elapsedMs = performance.now() - since;
  const parts = [
    `${WORDS[phase].doing}${style.unicode ? '…' : '...'}`,
    progress ? measure(progress, style) : '',
    (progress && remaining(progress, elapsedMs)) ?? formatDuration(Math.floor(elapsedMs / 100) * 100),
    detail ?? '',
  ].filter((part) => part !== '');
  return cutLive(parts.join('  '), style);
}

/** From this time and share on an estimate says something. */
const ESTIMATE_AFTER_MS = 10_000;
const ESTIMATE_FROM = 0.02;

/** `3 min left`, if it goes on as so far */
function remaining(
  { done, of = 0 }: Extract<RunEvent, { type: 'progress' }>,
  elapsedMs: number,
): string | undefined {
  if (elapsedMs < ESTIMATE_AFTER_MS || of <= 0 || done < of * ESTIMATE_FROM || done >= of) return undefined;
  const seconds = Math.ceil((elapsedMs * (of / done - 1)) / 1000);
  return `${formatDuration(seconds * 1000).replace('.0 s', ' s')} left`;
}

/** Cuts a live line. The last column stays free: a full line makes some terminals wrap, and then it cannot be erased. */
function cutLive(text: string, { columns, unicode }: TerminalStyle): string {
  return cutToWidth(visible(text), columns - 1, unicode ? '…' : '...');
}

/** `Blocked by app/psql for 13 s: pg_terminate_backend(4711) or --unblock`; of a long line the names are cut. */
function blockedLine(
  { who, since, ways }: Extract<RunEvent, { type: 'blocked' }>,
  style: TerminalStyle,
): string {
  const ageMs = since === null ? 0 : Date.now() - Date.parse(since);
  const age =
    ageMs < 1000 ? '' : ` for ${formatDuration(Math.floor(ageMs / 1000) * 1000).replace('.0 s', ' s')}`;
  const end = `${age}: ${ways}`;
  const room = Math.max(LEAST_NAME, style.columns - 1 - 'Blocked by '.length - end.length);
  const name = cutToWidth(visible(who), room, style.unicode ? '…' : '...');
  return cutLive(`Blocked by ${name}${end}`, style);
}

function measure({ done, of, unit }: Extract<RunEvent, { type: 'progress' }>, style: TerminalStyle): string {
  const amount = (value: number) => (unit.startsWith('bytes') ? formatBytes(value) : formatCount(value));
  const name = unit === 'bytes' ? '' : ` ${unit.replace('bytes ', '')}`;
  if (of === undefined || of <= 0) return `${amount(done)}${name}`;
  const part = Math.min(1, Math.max(0, done / of));
  // Only a finished phase may show 100 %.
  const percent = `${String(Math.floor(part * 100)).padStart(3)} %`;
  const amounts = `${percent}  ${amount(done)} of ${amount(of)}${name}`;
  return style.columns < 60 ? amounts : `${bar(part, style)} ${amounts}`;
}

function bar(part: number, style: TerminalStyle): string {
  const [full, empty] = style.unicode ? ['█', '░'] : ['#', '.'];
  const cells = Math.floor(part * BAR_CELLS);
  return `[${full.repeat(cells)}${empty.repeat(BAR_CELLS - cells)}]`;
}
