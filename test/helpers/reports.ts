import type { Report, SwapSection } from '../../src/model/report.ts';

/** Fields that come with few errors. */
const NOT_SAID = {
  where: null,
  internalQuery: null,
  schema: null,
  table: null,
  column: null,
  dataType: null,
  constraint: null,
};

/** Hand-written reports: what real runs look like, and the worst that a renderer may be given. */

type Sections = Partial<Omit<Report, 'command' | 'clone' | 'target'>> & {
  command?: Partial<Report['command']>;
  clone?: Partial<Report['clone']>;
  target?: Partial<Report['target']>;
};

const GB = 1024 ** 3;
const MB = 1024 ** 2;
const FINGERPRINTS = { before: 'c0d4f1a7e2b94410', after: '8e17aa02d35b6c9f' };
const NO_SCHEMA_CHANGE = {
  before: FINGERPRINTS.before,
  after: FINGERPRINTS.before,
  changes: [],
  renames: [],
  unmodeled: [],
  rollbackSql: null,
  rollbackLoses: [],
  leftovers: [],
};

/** Cloning and the command take their time, everything else two seconds. */
function finishedAt({ clone, command }: Sections): string {
  const durationMs = 2000 + (clone?.durationMs ?? 1840) + (command?.durationMs ?? 2210);
  return new Date(Date.parse('2026-03-14T02:11:07.120Z') + durationMs).toISOString();
}

export function sampleReport(sections: Sections = {}): Report {
  const { command, clone, target, ...others } = sections;
  return {
    version: 1,
    run: {
      id: '01jq4x9d0k7pt',
      startedAt: '2026-03-14T02:11:07.120Z',
      finishedAt: finishedAt(sections),
      mode: 'rehearse',
      tool: { name: 'safemigrate', version: '0.2.0' },
    },
    target: {
      host: 'db.internal',
      port: 5432,
      database: 'shop',
      serverVersion: '16.4',
      sizeBytes: 412 * MB,
      source: 'DATABASE_URL',
      changes: [],
      unchanged: true,
      sessions: { ours: 1, command: 0, others: 0, unexplained: 0 },
      touched: ['1 checkpoint'],
      ...target,
    },
    clone: {
      method: 'template',
      strategy: 'wal_log',
      isolation: 'same-cluster',
      containment: 'target-server',
      exposure: null,
      database: 'shop_rehearsal_01jq4x9d0k7pt',
      durationMs: 1840,
      sizeBytes: 412 * MB,
      uniqueBytes: 412 * MB,
      reason: 'the database is small enough to be copied through WAL without a checkpoint',
      kept: false,
      considered: [],
      ...clone,
    },
    command: {
      argv: ['npx', 'prisma', 'migrate', 'deploy'],
      exitCode: 0,
      signal: null,
      timedOut: false,
      durationMs: 2210,
      rewritten: ['DATABASE_URL'],
      added: [],
      undecided: [],
      leftRunning: [],
      isolation: { kind: 'watched', by: null, scoped: false, covered: [], allowed: [], reason: null },
      reachedClone: true,
      refused: [],
      allowed: [],
      redirected: [],
      swallowedErrors: [],
      failedWithoutError: false,
      ...command,
    },
    statements: [],
    transactions: [],
    schema: {
      ...FINGERPRINTS,
      changes: [
        {
          verb: 'create',
          kind: 'table',
          object: 'public.coupons',
          sql: 'CREATE TABLE public.coupons (id bigint NOT NULL, code text NOT NULL)',
          dataLoss: false,
        },
        {
          verb: 'create',
          kind: 'index',
          object: 'public.coupons_code_key',
          sql: 'CREATE UNIQUE INDEX coupons_code_key ON public.coupons (code)',
          dataLoss: false,
        },
        {
          verb: 'alter',
          kind: 'column',
          object: 'public.orders.coupon_id',
          sql: 'ALTER TABLE public.orders ADD COLUMN coupon_id bigint',
          dataLoss: false,
        },
      ],
      objects: [
        {
          verb: 'create',
          kind: 'table',
          object: 'public.coupons',
          formerly: null,
          before: null,
          after:
            'CREATE TABLE public.coupons (\n  id bigint NOT NULL,\n  code text NOT NULL\n);\n' +
            'CREATE UNIQUE INDEX coupons_code_key ON public.coupons (code);',
        },
        {
          verb: 'alter',
          kind: 'table',
          object: 'public.orders',
          formerly: null,
          before: 'CREATE TABLE public.orders (\n  id bigint NOT NULL\n);',
          after: 'CREATE TABLE public.orders (\n  id bigint NOT NULL,\n  coupon_id bigint\n);',
        },
      ],
      objectsLeftOut: 0,
      renames: [],
      unmodeled: [],
      rollbackSql:
        'ALTER TABLE public.orders DROP COLUMN coupon_id;\n\n-- not; a statement\nDROP TABLE public.coupons;\n',
      rollbackLoses: ['the rows of public.coupons that are written after the migration'],
      leftovers: [],
    },
    data: {
      tables: [
        {
          relation: 'public.orders',
          rowsBefore: 1_204_331,
          rowsAfter: 1_204_331,
          exact: false,
          bytesBefore: 268 * MB,
          bytesAfter: 268 * MB + 8192,
          rewritten: false,
        },
        {
          relation: 'public.coupons',
          rowsBefore: null,
          rowsAfter: 0,
          exact: true,
          bytesBefore: null,
          bytesAfter: 16384,
          rewritten: false,
        },
      ],
      unchangedTables: 41,
      written: [],
      lost: [],
      walBytes: 96_256,
      sizeDeltaBytes: 24_576,
    },
    hazards: [],
    caveats: [
      {
        path: 'statements',
        kind: 'unmeasured',
        reason: 'nothing observed the command between it and the clone',
      },
      { path: 'data.tables', kind: 'estimate', reason: "row counts of large tables are the planner's" },
    ],
    forecast: null,
    queries: null,
    checks: [],
    rerun: null,
    atOnce: null,
    load: null,
    down: null,
    targetConnections: [],
    verdict: { pass: true, reasons: [] },
    apply: null,
    swap: null,
    cleanup: { done: ['clone shop_rehearsal_01jq4x9d0k7pt', 'session'], failed: [] },
    ...others,
  };
}

const startedAt = '2026-03-14T02:11:09.500Z';
const statement = (index: number, sql: string, others: Partial<Report['statements'][number]> = {}) => ({
  index,
  session: 1,
  sql,
  tag: null,
  startedAt,
  durationMs: 1.2,
  rows: null,
  transaction: 1,
  explicit: true,
  exactness: 'exact' as const,
  error: null,
  locks: [],
  rewrote: [],
  walBytes: null,
  ...others,
});

const failedCommand = sampleReport({
  command: {
    argv: ['bundle', 'exec', 'rails', 'db:migrate', 'VERSION=20260314 0211'],
    exitCode: 1,
    durationMs: 8450,
    undecided: [
      { name: 'REPLICA_URL', reason: 'it names the same host but another database, shop_reporting' },
    ],
  },
  statements: [
    statement(1, 'BEGIN', { tag: 'BEGIN', durationMs: 0.04 }),
    statement(2, 'ALTER TABLE "orders"\n  ADD CONSTRAINT "orders_email_key"\n  UNIQUE ("email")', {
      durationMs: 4312,
      error: {
        ...NOT_SAID,
        sqlstate: '23505',
        message: 'could not create unique index "orders_email_key"',
        detail: 'Key (email)=(ada@example.com) is duplicated.',
        hint: null,
        position: null,
      },
    }),
    statement(3, 'SELEC 1 FROM "schema_migrations" WHERE version = 20260314', {
      durationMs: 0.2,
      error: {
        ...NOT_SAID,
        sqlstate: '42601',
        message: 'syntax error at or near "SELEC"',
        detail: null,
        hint: null,
        position: 1,
      },
    }),
  ],
  schema: NO_SCHEMA_CHANGE,
  data: { tables: [], unchangedTables: 43, written: [], lost: [], walBytes: 13_000_000, sizeDeltaBytes: 0 },
  caveats: [],
  verdict: {
    pass: false,
    reasons: [
      'the command failed with exit code 1: could not create unique index "orders_email_key" (SQLSTATE 23505)',
    ],
  },
});

const rewrite = sampleReport({
  target: { sizeBytes: 41 * GB, serverVersion: '17.2', touched: ['2 checkpoints', 'clone of 41 GB'] },
  clone: {
    strategy: 'clone',
    durationMs: 412,
    sizeBytes: 41 * GB,
    uniqueBytes: 19 * GB,
    reason: 'file_copy_method = clone, and the file system shares blocks',
  },
  command: { argv: ['flyway', 'migrate'], durationMs: 252_400 },
  statements: [
    statement(1, "SET lock_timeout = '5s'", { durationMs: 0.3 }),
    statement(2, 'ALTER TABLE public.events ALTER COLUMN id TYPE bigint', {
      durationMs: 241_300,
      rewrote: ['public.events'],
      walBytes: 19 * GB,
      locks: [
        {
          relation: 'public.events',
          mode: 'ACCESS EXCLUSIVE',
          acquiredBy: 'ALTER TABLE',
          heldMs: 241_900,
          blocks: ['reads', 'row locks', 'writes', 'vacuum', 'DDL'],
        },
      ],
    }),
    statement(3, 'CREATE INDEX events_account_id_idx ON public.events (account_id)', {
      durationMs: 9800,
      walBytes: 640 * MB,
      exactness: 'group',
      locks: [
        {
          relation: 'public.events',
          mode: 'SHARE',
          acquiredBy: 'CREATE INDEX',
          heldMs: 9810,
          blocks: ['writes', 'vacuum', 'DDL'],
        },
        {
          relation: 'public.accounts',
          mode: 'ACCESS SHARE',
          acquiredBy: 'CREATE INDEX',
          heldMs: null,
          blocks: [],
        },
      ],
    }),
    statement(4, 'UPDATE public.accounts SET plan = $1 WHERE plan IS NULL', {
      durationMs: 610,
      rows: 18_422,
    }),
  ],
  schema: {
    ...FINGERPRINTS,
    changes: [
      {
        verb: 'alter',
        kind: 'column',
        object: 'public.events.id',
        sql: 'ALTER TABLE public.events ALTER COLUMN id TYPE bigint',
        dataLoss: false,
      },
      {
        verb: 'create',
        kind: 'index',
        object: 'public.events_account_id_idx',
        sql: 'CREATE INDEX events_account_id_idx ON public.events (account_id)',
        dataLoss: false,
      },
      {
        verb: 'drop',
        kind: 'column',
        object: 'public.accounts.legacy_plan',
        sql: 'ALTER TABLE public.accounts DROP COLUMN legacy_plan',
        dataLoss: true,
      },
      { verb: 'drop', kind: 'view', object: 'public.plans', sql: 'DROP VIEW public.plans', dataLoss: false },
    ],
    renames: [{ kind: 'column', from: 'public.accounts.mail', to: 'public.accounts.email' }],
    unmodeled: [{ kind: 'text search dictionary', detail: '2 of them exist' }],
    rollbackSql: 'ALTER TABLE public.events ALTER COLUMN id TYPE integer;',
    rollbackLoses: ['the values of public.accounts.legacy_plan (18,422 rows)'],
    leftovers: [
      { kind: 'invalid index', object: 'public.events_created_at_idx', preexisting: true },
      { kind: 'constraint not valid', object: 'public.events.events_account_fk', preexisting: false },
    ],
  },
  data: {
    tables: [
      {
        relation: 'public.accounts',
        rowsBefore: 18_422,
        rowsAfter: 18_420,
        exact: true,
        bytesBefore: 5 * MB,
        bytesAfter: 9 * MB,
        rewritten: false,
      },
      {
        relation: 'public.events',
        rowsBefore: 212_004_118,
        rowsAfter: 212_004_118,
        exact: false,
        bytesBefore: 18 * GB,
        bytesAfter: 19.5 * GB,
        rewritten: true,
      },
    ],
    unchangedTables: 57,
    written: [],
    lost: [],
    walBytes: 20 * GB,
    sizeDeltaBytes: 1.5 * GB,
  },
  hazards: [
    {
      code: 'constraint-not-validated',
      severity: 'notice',
      statement: null,
      relation: 'public.events',
      message: 'events_account_fk is still NOT VALID.',
      evidence: 'pg_constraint.convalidated is false after the command.',
      advice: 'Run ALTER TABLE … VALIDATE CONSTRAINT in a later migration.',
      allowed: false,
    },
    {
      code: 'table-rewrite',
      severity: 'error',
      statement: 2,
      relation: 'public.events',
      message: 'The whole table is written again while no session can read it.',
      evidence: 'New relfilenode, 18 GB, ACCESS EXCLUSIVE held for 4 min 2 s.',
      advice: 'Add a bigint column, fill it in batches, then swap the two columns in one short transaction.',
      allowed: false,
    },
    {
      code: 'data-loss',
      severity: 'warning',
      statement: 5,
      relation: 'public.accounts',
      message: 'Dropping legacy_plan destroys 18,422 values.',
      evidence: 'The column held values other than null before the command.',
      advice: 'Rename it first, and drop it once it is not missed.',
      allowed: true,
    },
  ],
  caveats: [
    { path: 'data.tables', kind: 'estimate', reason: "row counts of large tables are the planner's" },
  ],
  verdict: {
    pass: false,
    reasons: [
      'table-rewrite on public.events: no session could read it for 4 min 2 s',
      'public.accounts lost 2 rows',
    ],
    objections: [
      {
        code: 'table-rewrite',
        message: 'no session could read it for 4 min 2 s',
        hazard: 0,
        statement: 2,
      },
      { code: 'CHECK_FAILED', message: 'public.accounts lost 2 rows', hazard: null, statement: null },
    ],
  },
});

const targetChanged = sampleReport({
  target: {
    unchanged: false,
    changes: [
      {
        what: 'role reporting was created',
        madeBy: 'command',
        evidence: 'a role belongs to the whole cluster, and a session of the command ran CREATE ROLE',
      },
      { what: 'table public.jobs gained 14 rows', madeBy: 'others', evidence: 'sessions of user worker' },
    ],
  },
  caveats: [],
  cleanup: {
    done: ['session'],
    failed: [
      {
        name: 'clone shop_rehearsal_01jq4x9d0k7pt',
        reason: 'database "shop_rehearsal_01jq4x9d0k7pt" is being accessed by other users',
      },
    ],
  },
  verdict: { pass: false, reasons: ['the command changed the target itself'] },
});

const unreached = sampleReport({
  target: { unchanged: null, sessions: null },
  command: {
    argv: ['./migrate.sh', '--env', 'production'],
    durationMs: 310,
    rewritten: ['DATABASE_URL', 'argument 2'],
    added: [],
    reachedClone: false,
    undecided: [{ name: 'DB_DSN', reason: 'the format of its value is not known' }],
  },
  schema: NO_SCHEMA_CHANGE,
  data: { tables: [], unchangedTables: 43, written: [], lost: [], walBytes: null, sizeDeltaBytes: null },
  caveats: [
    {
      path: 'target.unchanged',
      kind: 'unmeasured',
      reason:
        'whose sessions came to the target while the command ran is not known: the role may not read pg_stat_database',
    },
    { path: 'data.walBytes', kind: 'unmeasured', reason: 'other sessions wrote WAL at the same time' },
    { path: 'data.sizeDeltaBytes', kind: 'unmeasured', reason: 'other sessions wrote WAL at the same time' },
  ],
  verdict: { pass: false, reasons: ['the command never connected to the clone, so nothing was rehearsed'] },
});

const HOSTILE = '\x1b[2J\x1b]0;owned\x07\x1b[32mPASSED\x1b[0m';
const hostile = sampleReport({
  target: { database: `shop${HOSTILE}`, host: '数据库.example', source: 'DATABASE_URL\r\nPASSED' },
  command: {
    argv: ['psql', '-c', `select '<script>alert(1)</script>'\n\u202egnp.exe`],
    exitCode: 3,
    durationMs: 12,
  },
  statements: [
    statement(1, `DROP TABLE "${HOSTILE}" -- <!-- ]]> </pre> | **bold** \u0000 \u009b31m`, {
      error: {
        ...NOT_SAID,
        sqlstate: '42P01',
        message: `table "${HOSTILE}" does not exist`,
        detail: '\x1b]8;;http://evil.example\x07click me\x1b]8;;\x07',
        hint: '\b\b\b\b',
        position: 12,
      },
    }),
  ],
  schema: {
    ...FINGERPRINTS,
    changes: [
      { verb: 'drop', kind: 'table', object: `public."${HOSTILE}"`, sql: `DROP TABLE x`, dataLoss: true },
      {
        verb: 'create',
        kind: 'table',
        object: 'public."客户订单 👩‍👩‍👧 🇩🇪"',
        sql: 'CREATE TABLE x',
        dataLoss: false,
      },
      {
        verb: 'create',
        kind: 'table',
        object: `public."${'a_very_long_name_without_any_blank_'.repeat(3)}"`,
        sql: 'CREATE TABLE x',
        dataLoss: false,
      },
    ],
    renames: [{ kind: 'table', from: 'public."a\nb"', to: 'public."\u200bab"' }],
    unmodeled: [],
    rollbackSql: null,
    rollbackLoses: [],
    leftovers: [],
  },
  data: {
    tables: [
      {
        relation: 'public."客户订单"',
        rowsBefore: 10,
        rowsAfter: 0,
        exact: true,
        bytesBefore: 8192,
        bytesAfter: 0,
        rewritten: true,
      },
    ],
    unchangedTables: 0,
    written: [],
    lost: [],
    walBytes: 0,
    sizeDeltaBytes: -8192,
  },
  caveats: [],
  verdict: { pass: false, reasons: [`the command failed: ${HOSTILE}`] },
});

const kinds = ['table', 'index', 'constraint', 'function'];
const large = sampleReport({
  command: { argv: ['npx', 'drizzle-kit', 'migrate'], durationMs: 7_512_000 },
  schema: {
    ...FINGERPRINTS,
    changes: Array.from({ length: 5000 }, (_, index) => ({
      verb:
        index % 500 === 7 ? ('drop' as const) : index % 3 === 0 ? ('alter' as const) : ('create' as const),
      kind: kinds[index % 4] ?? 'table',
      object: `tenant_${Math.floor(index / 50)}.object_${index}`,
      sql: `ALTER TABLE tenant.object_${index} …`,
      dataLoss: index % 250 === 7,
    })),
    renames: [],
    unmodeled: [],
    rollbackSql: 'DROP TABLE x;\n'.repeat(5000),
    rollbackLoses: [],
    leftovers: [],
  },
  data: {
    tables: Array.from({ length: 320 }, (_, index) => ({
      relation: `tenant_${index}.orders`,
      rowsBefore: 1000 * index,
      rowsAfter: 1000 * index + 1,
      exact: true,
      bytesBefore: MB * index,
      bytesAfter: MB * (index + 1),
      rewritten: index % 100 === 0,
    })),
    unchangedTables: 12_480,
    written: [],
    lost: [],
    walBytes: 3 * GB,
    sizeDeltaBytes: 320 * MB,
  },
  hazards: Array.from({ length: 25 }, (_, index) => ({
    code: 'index-not-concurrent',
    severity: 'warning' as const,
    statement: index,
    relation: `tenant_${index}.orders`,
    message: 'Writers wait while the index is built.',
    evidence: 'SHARE held for 1.2 s.',
    advice: 'Use CREATE INDEX CONCURRENTLY.',
    allowed: false,
  })),
  caveats: [],
  verdict: { pass: true, reasons: ['no hazard is an error'] },
});

const interrupted = sampleReport({
  command: { exitCode: null, signal: 'SIGTERM', timedOut: true, durationMs: 600_000 },
  schema: null,
  data: null,
  caveats: [
    {
      path: 'schema',
      kind: 'unmeasured',
      reason: 'the run was stopped before the schema could be read again',
    },
    { path: 'data', kind: 'unmeasured', reason: 'the run was stopped before the schema could be read again' },
  ],
  verdict: { pass: false, reasons: [] },
});

const furtherRun = {
  exitCode: 0,
  signal: null,
  timedOut: false,
  durationMs: 1380,
  reachedClone: true,
  refused: [],
  statements: [],
  tablesCompared: 41,
  tablesSkipped: 2,
};

/** What the application and its owner rely on, and does not hold. */
const asked = sampleReport({
  queries: {
    source: 'pg_stat_statements',
    countedSince: '2026-03-01T00:00:00.000Z',
    checked: 812,
    skipped: { utility: 14, failedBefore: 3, hidden: 0 },
    planned: true,
    broken: [
      {
        sql: 'SELECT id, legacy_code\n  FROM customers\n WHERE email = $1',
        calls: 4_711_000,
        callsPerSecond: 41.7,
        error: { sqlstate: '42703', message: 'column "legacy_code" does not exist' },
      },
      {
        sql: 'UPDATE customers SET legacy_code = $1 WHERE id = $2',
        calls: 12,
        callsPerSecond: 0.0000104,
        error: { sqlstate: '42703', message: 'column "legacy_code" of relation "customers" does not exist' },
      },
    ],
    slower: [
      {
        sql: 'SELECT * FROM orders WHERE customer_id = $1 ORDER BY created_at DESC LIMIT $2',
        calls: 1_200_000,
        callsPerSecond: 10.6,
        costBefore: 8.44,
        costAfter: 41_877.5,
        nodeBefore: 'Index Scan using orders_customer_id_idx on orders',
        nodeAfter: 'Seq Scan on orders',
      },
    ],
  },
  checks: [
    {
      name: 'SELECT count(*) FROM customers',
      rule: 'same',
      passed: true,
      rowsBefore: 1,
      rowsAfter: 1,
      error: null,
      missing: [],
      added: [],
    },
    {
      name: 'checks/balances.sql',
      rule: 'same',
      passed: false,
      rowsBefore: 380,
      rowsAfter: 380,
      error: null,
      missing: ['["17","1200.00"]'],
      added: ['["17","120000.00"]'],
    },
    {
      name: 'SELECT legacy_code FROM customers WHERE legacy_code IS NULL',
      rule: 'empty',
      passed: false,
      rowsBefore: null,
      rowsAfter: null,
      error: { when: 'after', sqlstate: '42703', message: 'column "legacy_code" does not exist' },
      missing: [],
      added: [],
    },
  ],
  app: [
    {
      release: 'old',
      command: 'npm test',
      before: { exitCode: 0, signal: null, timedOut: false, durationMs: 8120, statements: 941 },
      after: { exitCode: 1, signal: null, timedOut: false, durationMs: 7920, statements: 903 },
      result: 'breaks',
      failed: [
        {
          sqlstate: '42703',
          message: 'column "legacy_code" does not exist',
          sql: 'SELECT id, legacy_code FROM customers WHERE email = $1',
          count: 12,
        },
      ],
      refused: [{ what: 'CREATE DATABASE', why: 'it would take effect outside of the clone' }],
    },
    {
      release: 'new',
      command: 'npm run test:api',
      before: { exitCode: null, signal: null, timedOut: true, durationMs: 900_000, statements: 12 },
      after: { exitCode: 0, signal: null, timedOut: false, durationMs: 6210, statements: 1204 },
      result: 'needs migration',
      failed: [],
      refused: [],
    },
    {
      release: 'new',
      command: 'npm run test:unit',
      before: null,
      after: { exitCode: null, signal: 'SIGKILL', timedOut: false, durationMs: 120, statements: 3 },
      result: 'fails either way',
      failed: [],
      refused: [],
    },
  ],
  rerun: {
    ...furtherRun,
    command: 'npx prisma migrate deploy',
    schemaEqual: true,
    differences: [],
    dataDifferences: [],
    passed: true,
  },
  down: {
    ...furtherRun,
    command: 'npm run migrate:down',
    schemaEqual: false,
    differences: [
      { what: 'table public._prisma_migrations is there too', bookkeeping: true },
      { what: 'index public.customers_legacy_code_idx is missing', bookkeeping: false },
    ],
    dataDifferences: [
      { relation: 'public.customers', what: 'other values in legacy_code', bookkeeping: false },
    ],
    passed: false,
  },
  verdict: {
    pass: false,
    reasons: [
      'the check checks/balances.sql returned other rows after the command than before: - ["17","1200.00"], + ["17","120000.00"]',
      'the way back (--down) does not lead back: index public.customers_legacy_code_idx is missing; public.customers: other values in legacy_code',
    ],
  },
});

const appliedAt = '2026-03-14T02:12:01.000Z';

/** Applied in a night in which another session held a lock for too long. */
const halfApplied = sampleReport({
  apply: {
    outcome: 'partly',
    reasons: [
      'the connection broke before the server answered, and whether this stayed is not known: UPDATE public.orders SET coupon_id = NULL',
      'the command failed with exit code 3',
    ],
    rehearsal: '01jq4x9d0k7pt',
    receipt: { finishedAt: '2026-03-14T02:11:13.170Z', ageMs: 47_830, signed: true },
    forced: null,
    startedAt: appliedAt,
    finishedAt: '2026-03-14T02:12:09.120Z',
    command: { exitCode: 3, signal: null, timedOut: false, durationMs: 8120 },
    attempts: [
      {
        startedAt: appliedAt,
        durationMs: 2310,
        exitCode: 3,
        signal: null,
        firstStatement: 1,
        failure: { statement: 1, sqlstate: '55P03', cause: 'lock' },
        committed: [],
        pausedMs: 870,
      },
      {
        startedAt: appliedAt,
        durationMs: 8120,
        exitCode: 3,
        signal: null,
        firstStatement: 1,
        failure: { statement: 4, sqlstate: '57014', cause: 'watchdog' },
        committed: [1, 2],
        pausedMs: null,
      },
    ],
    statements: [],
    transactions: [],
    during: {
      retries: [
        {
          sql: 'CREATE TABLE public.coupons (id bigint)',
          failed: 2,
          causes: ['lock-timeout', 'deadlock'],
          pausedMs: 810,
          outcome: 'went on',
        },
      ],
      cancelled: [
        {
          sql: 'UPDATE public.orders SET coupon_id = NULL',
          outcome: 'standby',
          reason: 'max-blocked',
          waiting: 3,
          waitedMs: 5100,
        },
      ],
      diverged: [{ sql: 'DROP TABLE public.legacy', stopped: true, onlyValues: false }],
      ownTimeouts: [{ setting: 'lock_timeout', value: '5s', where: 'statement' }],
      blockers: [
        {
          pid: 4711,
          user: 'reports',
          application: 'metabase',
          state: 'idle in transaction',
          query: 'SELECT sum(total) FROM public.orders',
          since: '2026-03-14 02:03:59+00',
          blocked: 'CREATE TABLE public.coupons (id bigint)',
          ended: false,
        },
      ],
      pausedMs: 0,
      laggedMs: 2400,
    },
    schemaEqual: false,
    fingerprints: { before: FINGERPRINTS.before, after: 'aaaa0000bbbb1111' },
    differences: [
      'missing: create index public.coupons_code_key',
      'missing: alter column public.orders.coupon_id',
    ],
    leftovers: [],
    comparedTimes: [
      {
        sql: 'CREATE TABLE public.coupons (id bigint NOT NULL, code text NOT NULL)',
        rehearsed: 1,
        applied: 1,
        rehearsedMs: 4.2,
        appliedMs: 5.1,
        rehearsedRows: null,
        appliedRows: null,
      },
      {
        sql: 'UPDATE public.orders SET coupon_id = NULL',
        rehearsed: 3,
        applied: 2,
        rehearsedMs: 1810,
        appliedMs: 7920,
        rehearsedRows: 120_000,
        appliedRows: 120_400,
      },
    ],
    committed: [
      {
        sql: 'CREATE TABLE public.coupons (id bigint NOT NULL, code text NOT NULL)',
        statement: 1,
        outcome: 'committed',
        explicit: false,
      },
      {
        sql: 'UPDATE public.orders SET coupon_id = NULL',
        statement: 2,
        outcome: 'unknown',
        explicit: true,
      },
    ],
    rolledBack: [
      {
        sql: "INSERT INTO public.coupons VALUES (1, 'WELCOME')",
        statement: 3,
        outcome: 'rolled back',
        explicit: false,
      },
    ],
    wayBack: 'DROP TABLE public.coupons;\n',
    bookkeeping: { agrees: false, unnoted: [1] },
  },
});

const notApplied = sampleReport({
  apply: {
    ...(halfApplied.apply ?? never()),
    outcome: 'refused',
    reasons: ['the target changed since it was rehearsed on: create column public.orders.note'],
    receipt: null,
    startedAt: null,
    finishedAt: null,
    command: null,
    attempts: [],
    during: null,
    schemaEqual: null,
    fingerprints: null,
    differences: [],
    comparedTimes: [],
    committed: [],
    rolledBack: [],
    wayBack: null,
    bookkeeping: null,
  },
});

function never(): never {
  throw new Error('the sample above has it');
}

const forecast: NonNullable<Report['forecast']> = {
  sampledMs: 14_200,
  averagedMs: null,
  transactionsPerSecond: 230.4,
  sessions: { open: 41, max: 100, reserved: 3 },
  oldestTransaction: { ageMs: 720_000, application: 'nightly report', state: 'idle in transaction' },
  preparedTransactions: { count: 1, oldestMs: 3_600_000 },
  locks: [
    {
      relation: 'public.orders',
      mode: 'ACCESS EXCLUSIVE',
      statement: 2,
      heldMs: 4200,
      blocks: ['reads', 'writes'],
      readsPerSecond: 212,
      writesPerSecond: 18.04,
      queued: 966,
      sessionsRunOut: true,
      ratesFrom: 'sample',
      waitsFor: {
        mode: 'ACCESS SHARE',
        ageMs: 720_000,
        application: 'nightly report',
        state: 'idle in transaction',
      },
    },
    {
      relation: 'public.coupons',
      mode: 'SHARE',
      statement: 3,
      heldMs: null,
      blocks: ['writes'],
      readsPerSecond: null,
      writesPerSecond: null,
      queued: null,
      sessionsRunOut: null,
      waitsFor: null,
      ratesFrom: null,
    },
    {
      relation: 'public.quiet',
      mode: 'SHARE',
      statement: 3,
      heldMs: 12,
      blocks: ['writes'],
      readsPerSecond: 0,
      writesPerSecond: 0,
      queued: 0,
      sessionsRunOut: false,
      waitsFor: null,
      ratesFrom: 'sample',
    },
  ],
  wal: {
    writtenBytes: 20 * GB,
    standbys: [
      { name: 'replica', synchronous: true, lagBytes: GB, lagMs: 5, behindBytes: 21 * GB },
      { name: 'replica', synchronous: false, lagBytes: null, lagMs: null, behindBytes: null },
    ],
    inactiveSlots: ['forgotten'],
  },
  disk: { neededBytes: 45 * GB, freeBytes: null },
};

const swapped = sampleReport({
  forecast,
  swap: {
    outcome: 'swapped',
    reasons: [],
    original: 'shop_before_01jq4x9d0k7pt',
    keepUntil: '2026-03-21T02:11:07.120Z',
    stallMs: 3140,
    closings: [{ purpose: 'exchange', durationMs: 3140 }],
    sessionsEnded: 17,
    steps: [
      { name: 'close', durationMs: 84 },
      { name: 'clone', durationMs: 620 },
      { name: 'command', durationMs: 2210 },
      { name: 'rename', durationMs: 11 },
    ],
  },
});

const swapUndone = sampleReport({
  swap: {
    outcome: 'undone',
    reasons: ['the command failed with exit code 3'],
    original: null,
    keepUntil: null,
    stallMs: 1200,
    closings: [{ purpose: 'exchange', durationMs: 1200 }],
    sessionsEnded: 3,
    steps: [{ name: 'close', durationMs: 84 }],
  },
});

const onlineSwap = {
  outcome: 'swapped' as const,
  reasons: [],
  original: 'shop_before_01jq4x9d0k7pt',
  keepUntil: null,
  stallMs: 510,
  closings: [
    { purpose: 'clone', durationMs: 262 },
    { purpose: 'cut-over', durationMs: 510 },
    { purpose: 'cut-over', durationMs: 141 },
  ],
  sessionsEnded: 41,
  steps: [
    { name: 'clone', durationMs: 171 },
    { name: 'migrate', durationMs: 252_210 },
    { name: 'catch up', durationMs: 20_400 },
    { name: 'rename', durationMs: 11 },
  ],
  online: {
    cloneClosedMs: 262,
    cloneGapMs: 281,
    lag: [
      { atMs: 0, behindBytes: 0 },
      { atMs: 1_010, behindBytes: 1_204_000 },
      { atMs: 252_500, behindBytes: 120_400_000 },
      { atMs: 258_600, behindBytes: 60_200_000 },
      { atMs: 264_700, behindBytes: 14_000 },
      { atMs: 7_272_000, behindBytes: 2_100 },
    ],
    catchUpMs: 12_200,
    rowsCompared: 1_204_112,
    rowsUnsettled: 3,
    compareMs: 8_100,
    notCompared: ['public.orders.total', 'public.addresses'],
    postponedMs: 7_200_000,
    attempts: 2,
    cutOverAtMs: 7_273_000,
    cutOverClosedMs: 141,
    cutOverGapMs: 160,
    wayBack: null,
  },
} satisfies SwapSection;
const swappedOnline = sampleReport({ swap: onlineSwap });

const swappedWithoutWayBack = sampleReport({
  swap: {
    ...onlineSwap,
    online: {
      ...onlineSwap.online,
      wayBack: { until: null, watchdogPid: null, limits: [], failure: 'its worker did not start' },
    },
  },
});

const swappedWithWayBack = sampleReport({
  swap: {
    ...onlineSwap,
    online: {
      ...onlineSwap.online,
      wayBack: {
        until: '2025-01-02T09:00:00.000Z',
        watchdogPid: 4711,
        limits: ['values of the new column public.orders.note', 'NULL in public.orders.code'],
        failure: null,
      },
    },
  },
});

const onlineUndone = sampleReport({
  swap: {
    outcome: 'undone',
    reasons: [
      'The cut-over would have taken longer than 500 ms (--limit cut-over), in each of 10 attempts; the shortest would have taken about 760 ms: --limit cut-over=1s would have done.',
    ],
    original: null,
    keepUntil: null,
    stallMs: 5_300,
    closings: [
      { purpose: 'clone', durationMs: 5_300 },
      ...Array.from({ length: 10 }, () => ({ purpose: 'cut-over' as const, durationMs: 510 })),
    ],
    sessionsEnded: 41,
    steps: [{ name: 'close', durationMs: 84 }],
    online: {
      cloneClosedMs: 5_300,
      cloneGapMs: null,
      lag: [],
      catchUpMs: null,
      rowsCompared: null,
      rowsUnsettled: null,
      compareMs: null,
      notCompared: [],
      postponedMs: null,
      attempts: 10,
      cutOverAtMs: null,
      cutOverClosedMs: null,
      cutOverGapMs: null,
      wayBack: null,
    },
  },
});

export const sampleReports: Record<string, Report> = {
  passed: sampleReport(),
  'failed-command': failedCommand,
  rewrite,
  'target-changed': targetChanged,
  unreached,
  hostile,
  large,
  interrupted,
  asked,
  'half-applied': halfApplied,
  'not-applied': notApplied,
  swapped,
  'swap-undone': swapUndone,
  'swapped-online': swappedOnline,
  'swapped-with-way-back': swappedWithWayBack,
  'swapped-without-way-back': swappedWithoutWayBack,
  'online-swap-undone': onlineUndone,
};
