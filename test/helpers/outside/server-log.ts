/** Settings of a server that logs what each message took: Parse, Bind and Execute have a line each. */
export const LOGGED = {
  log_min_duration_statement: '0',
  log_statement: 'all',
  log_line_prefix: '%n|%p|%d|%a|',
} as const;

/** One execution of a statement, as the server logged it. */
export interface LoggedExecution {
  readonly pid: number;
  readonly application: string;
  /** What its comment says: the name of the step. */
  readonly name: string;
  /** Milliseconds since 1970: of Parse, if it is the first execution, of Bind or the Query, and of the end. */
  readonly startedAt: number;
  readonly boundAt: number;
  endedAt: number;
  /** The server's time for Parse if it is the first one, Bind, Execute and further fetches; or for the Query. */
  durationMs: number;
  failed: boolean;
}

interface Backend {
  /** Time of Parse that no execution has got yet, by the name of the step. */
  readonly parsed: Map<string, { startedAt: number; durationMs: number }>;
  readonly last: Map<string, LoggedExecution>;
  /** The execution that was announced by a line of its own, and when. */
  announced?: { readonly execution: LoggedExecution; readonly at: number };
}

const LINE = /^(\d+\.\d+)\|(\d+)\|([^|]*)\|([^|]*)\|(LOG|ERROR):\s+(.*)$/;
const MESSAGE =
  /^(?:duration: (?<took>[\d.]+) ms(?:\s+(?<part>parse|bind) [^:]*: .*)?|(?<query>statement): .*|(?<execute>execute) .*)$/;
/** The name of a step in its comment; those of safemigrate's own statements begin with a space. */
export const STEP = /\/\*(\S.*?)\*\//;

/** @returns the executions of steps in this database, in the order in which they began. */
export function readServerLog(log: string, database: string): LoggedExecution[] {
  const backends = new Map<number, Backend>();
  const executions: LoggedExecution[] = [];
  for (const line of log.split('\n')) {
    const [, seconds, process, name, application = '', level, message = ''] = LINE.exec(line) ?? [];
    if (name !== database) continue;
    const at = Number(seconds) * 1000;
    const pid = Number(process);
    const backend = backends.get(pid) ?? { parsed: new Map(), last: new Map() };
    backends.set(pid, backend);
    if (level === 'ERROR') fail(backend, at);
    else note(backend, { at, pid, application, message }, executions);
  }
  return executions;
}

interface Entry {
  readonly at: number;
  readonly pid: number;
  readonly application: string;
  readonly message: string;
}

function note(backend: Backend, entry: Entry, executions: LoggedExecution[]): void {
  const { took, part, query, execute } = MESSAGE.exec(entry.message)?.groups ?? {};
  const name = STEP.exec(entry.message)?.[1];
  const durationMs = Number(took ?? 0);
  if (took !== undefined && part === undefined) complete(backend, entry.at, durationMs);
  else if (name === undefined) delete backend.announced;
  else if (part === 'parse') backend.parsed.set(name, { startedAt: entry.at - durationMs, durationMs });
  else {
    const begins = part === 'bind' || query !== undefined;
    const before = begins ? undefined : backend.last.get(name);
    const execution = before ?? begin(backend, { ...entry, name, durationMs });
    if (!before) executions.push(execution);
    if (query ?? execute) backend.announced = { execution, at: entry.at };
  }
}

/** An execution that begins with Bind, or with a Query. */
function begin(
  backend: Backend,
  { at, pid, application, name, durationMs }: Entry & { name: string; durationMs: number },
): LoggedExecution {
  const parsed = backend.parsed.get(name) ?? { startedAt: at - durationMs, durationMs: 0 };
  backend.parsed.delete(name);
  const execution = {
    pid,
    application,
    name,
    startedAt: parsed.startedAt,
    boundAt: at - durationMs,
    endedAt: at,
    durationMs: durationMs + parsed.durationMs,
    failed: false,
  };
  backend.last.set(name, execution);
  return execution;
}

/** The line that has the time of what was announced: without its text, since that was logged before. */
function complete(backend: Backend, at: number, durationMs: number): void {
  const { announced } = backend;
  if (!announced) return;
  announced.execution.durationMs += durationMs;
  announced.execution.endedAt = at;
  delete backend.announced;
}

/** What failed has no line with its time: it took until the error. */
function fail(backend: Backend, at: number): void {
  const { announced } = backend;
  if (!announced) return;
  complete(backend, at, at - announced.at);
  announced.execution.failed = true;
}
