/** A fault in a number, put into a copy of the program's source. */
export interface PlantedFault {
  readonly fault: string;
  readonly file: `${string}.ts`;
  /** Stands there exactly once. */
  readonly search: string;
  readonly replace: string;
  /** The run that shows it, and what that has to disagree about. */
  readonly run: 'drivers' | 'numbers';
  readonly shows: RegExp;
}

const CLOCK = 'proxy/server-clock.ts';
const SESSION = 'proxy/session-transaction.ts';
const STATEMENTS = 'observe/statements.ts';
const RELATIONS = 'observe/relations.ts';
const LOST = 'observe/lost-data.ts';

export const PLANTED_FAULTS: readonly PlantedFault[] = [
  {
    fault: 'a statement begins when the answers before its completion have come (that of d26be521)',
    file: CLOCK,
    search: 'const ms = this.#lap(sentMs) + this.#preparingMs + earlierMs;',
    replace: 'const ms = this.#lap(sentMs);',
    run: 'drivers',
    shows: /^node_pg_parameters\.plan: time$/,
  },
  {
    fault: 'the time of a Parse by itself is lost',
    file: CLOCK,
    search: 'if (this.#preparation) this.#preparation.ms += this.#preparingMs;',
    replace: 'if (this.#preparation) this.#preparation.ms += 0;',
    run: 'drivers',
    shows: /^pgbench_prepared\.parse: time$/,
  },
  {
    fault: 'each execution of a prepared statement gets the time of its Parse',
    file: SESSION,
    search: 'if (preparation) preparation.ms = 0;',
    replace: '',
    run: 'drivers',
    shows: /^psycopg_prepared\.parse: time$/,
  },
  {
    fault: 'pauses of the client are the statement’s time',
    file: CLOCK,
    search: 'return Math.max(sentMs, this.#freeAtMs);',
    replace: 'return this.#freeAtMs || sentMs;',
    run: 'drivers',
    shows: /^pgbench_\w+\.inside: time$/,
  },
  {
    fault: 'what failed has no time',
    file: SESSION,
    search: "    this.#outcome = 'rolled back';\n    this.#endStatement(begun,",
    replace: "    this.#outcome = 'rolled back';\n    begun.durationMs = 0;\n    this.#endStatement(begun,",
    run: 'drivers',
    shows: /^node_pg_\w+\.fail: time$/,
  },
  {
    fault: 'times are seconds',
    file: STATEMENTS,
    search: 'durationMs: outcome?.durationMs ?? 0,',
    replace: 'durationMs: (outcome?.durationMs ?? 0) / 1000,',
    run: 'drivers',
    shows: /^pgbench_simple\.rewrite: time$/,
  },
  {
    fault: 'times are a fifth too long',
    file: STATEMENTS,
    search: 'durationMs: outcome?.durationMs ?? 0,',
    replace: 'durationMs: (outcome?.durationMs ?? 0) * 1.2,',
    run: 'drivers',
    shows: /^pgbench_simple\.rewrite: time$/,
  },
  {
    fault: 'a statement starts an hour later',
    file: STATEMENTS,
    search: 'startedAt: statement.startedAt.toISOString(),',
    replace: 'startedAt: new Date(statement.startedAt.getTime() + 3_600_000).toISOString(),',
    run: 'drivers',
    shows: /\.sleep: start$/,
  },
  {
    fault: 'a session is missing',
    file: STATEMENTS,
    search: 'this.#store.begin(event.statement);',
    replace: 'if (event.statement.session !== 2) this.#store.begin(event.statement);',
    run: 'drivers',
    shows: /: executions$/,
  },
  {
    fault: 'rows are doubled',
    file: STATEMENTS,
    search: 'rows: outcome?.rows ?? null,',
    replace: 'rows: outcome?.rows == null ? null : outcome.rows * 2,',
    run: 'drivers',
    shows: /\.update: rows$/,
  },
  {
    fault: 'rows of an INSERT are not counted',
    file: 'postgres/protocol/messages.ts',
    search: '/^(?:SELECT|INSERT 0|INSERT \\d+|UPDATE',
    replace: '/^(?:SELECT|UPDATE',
    run: 'drivers',
    shows: /\.insert: rows$/,
  },
  {
    fault: 'the locks of a transaction end with their statement',
    file: STATEMENTS,
    search: '?? this.#untilEndMs(statement),',
    replace: '?? Math.min(outcome?.durationMs ?? 0, this.#untilEndMs(statement) ?? 0),',
    run: 'drivers',
    shows: /\.alter: ACCESS EXCLUSIVE of /,
  },
  {
    fault: 'a lock ends 80 ms early',
    file: STATEMENTS,
    search: 'Math.max(0, endedAt - statement.startedAt.getTime())',
    replace: 'Math.max(0, endedAt - statement.startedAt.getTime() - 80)',
    run: 'drivers',
    shows: /\.alter: ACCESS EXCLUSIVE of /,
  },
  {
    fault: 'a lock has a weaker mode',
    file: STATEMENTS,
    search: 'mode: mode ?? lock.mode,',
    replace: "mode: mode === 'ACCESS EXCLUSIVE' ? 'EXCLUSIVE' : (mode ?? lock.mode),",
    run: 'drivers',
    shows: /\.rewrite: EXCLUSIVE of /,
  },
  {
    fault: 'locks are not in the report',
    file: 'proxy/lock-ledger.ts',
    search: 'const added = reading.locks.filter((lock) => !this.#known.has(keyOf(lock)));',
    replace: 'const added = reading.locks.filter((lock) => this.#known.has(keyOf(lock)));',
    run: 'drivers',
    shows: /^ACCESS EXCLUSIVE of /,
  },
  {
    fault: 'a rewrite is not seen',
    file: RELATIONS,
    search: 'then !== undefined && now !== undefined && then.filenode !== now.filenode;',
    replace: 'then !== undefined && now !== undefined && then.oid !== now.oid;',
    run: 'drivers',
    shows: /_big: rewritten$/,
  },
  {
    fault: 'no statement rewrote anything',
    file: 'observe/rewritten-relations.ts',
    search: 'rewrote: rewrote.get(statement.index) ?? []',
    replace: 'rewrote: rewrote.get(-statement.index) ?? []',
    run: 'drivers',
    shows: /^statements: rewrote$/,
  },
  {
    fault: 'deleted rows are counted twice',
    file: 'observe/written-rows.ts',
    search: 'const deleted = Math.max(0, now.deleted - then.deleted);',
    replace: 'const deleted = 2 * Math.max(0, now.deleted - then.deleted);',
    run: 'drivers',
    shows: /_rows: rows inserted, updated, deleted$/,
  },
  {
    fault: 'the WAL of a statement is halved',
    file: 'proxy/lock-ledger.ts',
    search: 'Math.max(0, to - from);',
    replace: 'Math.floor(Math.max(0, to - from) / 2);',
    run: 'numbers',
    shows: /^statements\[\]\.walBytes, rewrite$/,
  },
  {
    fault: 'the WAL of the command is halved',
    file: RELATIONS,
    search: 'written, lost: [], walBytes, sizeDeltaBytes }',
    replace: 'written, lost: [], walBytes: walBytes && Math.floor(walBytes / 2), sizeDeltaBytes }',
    run: 'numbers',
    shows: /^data\.walBytes, command$/,
  },
  {
    fault: 'growth is shrinking',
    file: RELATIONS,
    search: 'after.databaseBytes - before.databaseBytes',
    replace: 'before.databaseBytes - after.databaseBytes',
    run: 'numbers',
    shows: /^target\.sizeBytes, difference$/,
  },
  {
    fault: 'sizes are kB',
    file: RELATIONS,
    search: 'bytesAfter: now ? now.sizeBytes : 0,',
    replace: 'bytesAfter: now ? Math.floor((now.sizeBytes ?? 0) / 1024) : 0,',
    run: 'numbers',
    shows: /^data\.tables\[\]\.bytesBefore, public\.lines after$/,
  },
  {
    fault: 'rows before the command are those after it',
    file: RELATIONS,
    search: 'rowsBefore: then ? then.rows : 0,',
    replace: 'rowsBefore: now ? now.rows : 0,',
    run: 'numbers',
    shows: /^data\.tables\[\]\.rowsBefore, public\.lines before$/,
  },
  {
    fault: 'a dropped table had no rows',
    file: LOST,
    search: 'const { rowsBefore: rows, exact } = table;',
    replace: 'const { rowsAfter: rows, exact } = table;',
    run: 'numbers',
    shows: /^data\.lost\[\]\.rows, gone, rows$/,
  },
  {
    fault: 'the rows of a dropped column are its values',
    file: LOST,
    search: "what: verb === 'drop' ? 'dropped' : 'narrowed', ...content };",
    replace: "what: verb === 'drop' ? 'dropped' : 'narrowed', ...content, rowsWithValue: content.rows };",
    run: 'numbers',
    shows: /^data\.lost\[\]\.rows, note, values$/,
  },
  {
    fault: 'the command’s time is seconds',
    file: 'command/run-command.ts',
    search: 'const durationMs = performance.now() - startedAt;',
    replace: 'const durationMs = (performance.now() - startedAt) / 1000;',
    run: 'numbers',
    shows: /^command\.durationMs, command$/,
  },
  {
    fault: 'the clone’s time is twenty times too long',
    file: 'clone/template.ts',
    search: 'durationMs: performance.now() - started,',
    replace: 'durationMs: 20 * (performance.now() - started),',
    run: 'numbers',
    shows: /^clone\.durationMs, clone$/,
  },
];
