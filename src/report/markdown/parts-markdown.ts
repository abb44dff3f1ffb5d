import { formatBytes, formatCount, formatDuration, plural } from '../../format.ts';
import type { Report, StatementSection } from '../../model/report.ts';
import { duringWords } from '../guardrail-phrases.ts';
import { basisWords, cutWords, lockForecastWords, losingChanges, resourceWords } from '../phrases.ts';
import { block, code, prose } from './escape-markdown.ts';

/** A part of the page: its items can be left out from the end, where the whole would become too long. */
export interface Part {
  readonly title: string;
  /** Folded away behind its title. */
  readonly folded: boolean;
  /** Of the lowest importance the first items are left out. */
  readonly importance: number;
  /** Before the items: the head of a table. */
  readonly head: readonly string[];
  readonly items: readonly string[];
  /** After the items: the end of a block of code. */
  readonly foot: readonly string[];
}

const PART = { folded: true, head: [], foot: [] } as const;

export function parts(report: Report): Part[] {
  return [
    ...applyParts(report),
    hazardPart(report),
    failurePart(report),
    queryPart(report),
    checkPart(report),
    furtherPart('The migration once more (--rerun)', report.rerun),
    furtherPart('The way back (--down)', report.down),
    lossPart(report),
    schemaPart(report),
    dataPart(report),
    forecastPart(report),
    statementPart(report),
    wayBackPart(report),
    caveatPart(report),
  ].filter((part): part is Part => part !== undefined && part.items.length > 0);
}

/** What the heading of an apply does not say. */
function applyParts({ apply }: Report): Part[] {
  if (apply === null) return [];
  const { committed, rolledBack, during, differences, comparedTimes, wayBack, outcome } = apply;
  const effects = [...committed, ...rolledBack].sort((one, other) => one.statement - other.statement);
  const outcomes = {
    unknown: 'may have been committed',
    committed: 'committed',
    'rolled back': 'not committed',
  };
  const words = during === null ? [] : duringWords(during, (text) => text);
  const times = comparedTimes.toSorted((one, other) => other.appliedMs - one.appliedMs);
  const [head = '', back = '', foot = ''] = block('sql', wayBack?.trimEnd() ?? '');
  return [
    {
      ...PART,
      ...{ title: 'What stays on the target', folded: outcome === 'applied', importance: 9 },
      items: effects.map((each) => `- ${each.statement}. ${outcomes[each.outcome]}: ${code(each.sql)}`),
    },
    {
      ...{ ...PART, title: 'On the way', folded: false, importance: 8 },
      items: words.map((sentence) => `- ${prose(sentence)}`),
    },
    {
      ...{ ...PART, title: 'Otherwise than rehearsed', folded: false, importance: 9 },
      items: differences.map((difference) => `- ${prose(difference)}`),
    },
    {
      ...{ ...PART, title: 'Times, the slowest on the target first', importance: 5 },
      head: ['| | statement | rehearsed | on the target |', '|---|---|---|---|'],
      items: times.map(
        ({ applied, sql, rehearsedMs, appliedMs }) =>
          `| ${applied} | ${code(sql, 160)} | ${formatDuration(rehearsedMs)} | ${formatDuration(appliedMs)} |`,
      ),
    },
    {
      ...{ title: 'From what the target is now to the schema before', folded: false, importance: 8 },
      ...{ head: [head], items: wayBack === null ? [] : back.split('\n'), foot: [foot] },
    },
  ];
}

const SEVERITIES = ['error', 'warning', 'notice'] as const;
const SIGNS = { error: '🛑', warning: '⚠️', notice: 'ℹ️' } as const;

function hazardPart({ hazards }: Report): Part {
  const rank = ({ severity, allowed }: Report['hazards'][number]) =>
    SEVERITIES.indexOf(severity) + (allowed ? SEVERITIES.length : 0);
  const items = hazards
    .toSorted((one, other) => rank(one) - rank(other))
    .map(
      ({ code: name, severity, relation, statement, message, evidence, advice, allowed }) =>
        `- ${SIGNS[severity]} **${name}**${relation === null ? '' : ` on ${code(relation)}`}` +
        `${statement === null ? '' : `, statement ${statement}`}${allowed ? ' (allowed by the policy)' : ''}: ` +
        `${prose(message)}${evidence === '' ? '' : `\n  - measured: ${prose(evidence)}`}` +
        `${advice === '' ? '' : `\n  - safer: ${prose(advice, 1000)}`}`,
    );
  return { ...PART, title: `Hazards: ${formatCount(hazards.length)}`, folded: false, importance: 10, items };
}

function failurePart({ statements }: Report): Part {
  const failed = statements.filter(({ error }) => error !== null);
  return {
    ...PART,
    title: `Failed statements: ${formatCount(failed.length)}`,
    folded: false,
    importance: 9,
    items: failed.map(
      ({ index, sql, error }) =>
        `- ${index}. ${code(sql)}\n  - ${prose(error?.message ?? '')} (SQLSTATE ${error?.sqlstate ?? ''})`,
    ),
  };
}

function queryPart({ queries }: Report): Part | undefined {
  if (!queries) return undefined;
  const rate = (perSecond: number | null) => (perSecond === null ? '' : `${perSecond.toFixed(1)} calls/s`);
  return {
    ...PART,
    title: `The application's queries: ${plural(queries.checked, 'query', 'queries')} checked, ${formatCount(queries.broken.length)} broken, ${formatCount(queries.slower.length)} slower`,
    folded: queries.broken.length + queries.slower.length === 0,
    importance: 8,
    head: ['| | query | calls | why |', '|---|---|---|---|'],
    items: [
      ...queries.broken.map(
        ({ sql, callsPerSecond, error }) =>
          `| broken | ${code(sql)} | ${rate(callsPerSecond)} | ${prose(error.message)} (${error.sqlstate}) |`,
      ),
      ...queries.slower.map(
        ({ sql, callsPerSecond, costBefore, costAfter, nodeBefore, nodeAfter }) =>
          `| slower | ${code(sql)} | ${rate(callsPerSecond)} | planner's cost ${formatCount(Math.round(costBefore))} → ` +
          `${formatCount(Math.round(costAfter))}${nodeAfter === null ? '' : `; ${prose(nodeBefore ?? '?')} → ${prose(nodeAfter)}`} |`,
      ),
    ],
  };
}

function checkPart({ checks }: Report): Part {
  return {
    ...PART,
    title: `Checks: ${formatCount(checks.filter(({ passed }) => passed).length)} of ${formatCount(checks.length)} passed`,
    folded: checks.every(({ passed }) => passed),
    importance: 8,
    items: checks.map(({ name, passed, error, missing, added }) => {
      const why = error
        ? `: ${prose(error.message)} (${error.sqlstate}, ${error.when} the command)`
        : [
            ...missing.map((row) => `\n  - gone: ${code(row)}`),
            ...added.map((row) => `\n  - new: ${code(row)}`),
          ].join('');
      return `- ${passed ? '✅' : '❌'} ${code(name)}${why}`;
    }),
  };
}

function furtherPart(title: string, further: Report['rerun']): Part | undefined {
  if (!further) return undefined;
  const outcome = further.passed ? 'as it should be' : 'not as it should be';
  return {
    ...PART,
    title: `${title}: ${outcome}`,
    folded: further.passed,
    importance: 7,
    items: [
      `- ${code(further.command)} ended with exit code ${further.exitCode ?? '–'} after ${formatDuration(further.durationMs)}`,
      ...further.differences.map(({ what }) => `- ${prose(what)}`),
      ...further.dataDifferences.map(({ relation, what }) => `- ${code(relation)}: ${prose(what)}`),
    ],
  };
}

function lossPart({ data }: Report): Part | undefined {
  const lost = data?.lost ?? [];
  return {
    ...PART,
    title: `Data that is gone: ${plural(lost.length, 'object')}`,
    folded: false,
    importance: 9,
    items: lost.map((each) => {
      const { object, kind, what, rows, rowsWithValue, exact } = each;
      const how = what === 'narrowed' ? `${what}, ${cutWords(each)}` : what;
      const count =
        rowsWithValue === null
          ? 'how much it held is not known'
          : `${formatCount(rowsWithValue)} of ${formatCount(rows ?? 0)} rows`;
      return `- ${kind} ${code(object)} ${how}: ${exact || rowsWithValue === null ? '' : 'about '}${count}`;
    }),
  };
}

function schemaPart(report: Report): Part | undefined {
  const { schema } = report;
  if (!schema) return undefined;
  const signs = {
    create: '+',
    grant: '+',
    drop: '-',
    revoke: '-',
    alter: '!',
    rename: '!',
    comment: '!',
  } as const;
  const { possible } = losingChanges(report);
  const changes = schema.changes.toSorted((one, other) => Number(other.dataLoss) - Number(one.dataLoss));
  const lines = [
    ...changes.map((change) => {
      const { verb, kind, object, dataLoss } = change;
      const loss = dataLoss ? `   ${possible.includes(change) ? 'MAY LOSE' : 'LOSES'} DATA` : '';
      return `${signs[verb]} ${verb} ${kind} ${object}${loss}`;
    }),
    ...schema.renames.map(({ kind, from, to }) => `! rename ${kind} ${from} -> ${to}`),
  ];
  return { ...fencedLines(lines), title: `Schema: ${plural(changes.length, 'change')}`, importance: 6 };
}

/** Each line on its own, so that lines can be left out. */
function fencedLines(lines: readonly string[]): Pick<Part, 'folded' | 'head' | 'items' | 'foot'> {
  const [head = '', body = '', foot = ''] = block('diff', lines.join('\n'));
  return { folded: true, head: [head], items: lines.length === 0 ? [] : body.split('\n'), foot: [foot] };
}

function dataPart({ data }: Report): Part | undefined {
  if (!data) return undefined;
  const size = (bytes: number | null) => (bytes === null ? '–' : formatBytes(bytes));
  const rows = (count: number | null, exact: boolean) =>
    count === null ? '–' : `${exact ? '' : '~'}${formatCount(count)}`;
  return {
    ...PART,
    title: `Data: ${plural(data.tables.length, 'table')} changed${data.walBytes === null ? '' : `, ${formatBytes(data.walBytes)} WAL`}`,
    importance: 5,
    head: ['| table | rows | size | |', '|---|---|---|---|'],
    items: data.tables.map(
      ({ relation, rowsBefore, rowsAfter, exact, bytesBefore, bytesAfter, rewritten }) =>
        `| ${code(relation)} | ${rows(rowsBefore, exact)} → ${rows(rowsAfter, exact)} | ` +
        `${size(bytesBefore)} → ${size(bytesAfter)} | ${rewritten ? 'rewritten' : ''} |`,
    ),
  };
}

function forecastPart({ forecast }: Report): Part | undefined {
  if (!forecast) return undefined;
  const rate = (perSecond: number | null) => (perSecond === null ? '?' : `${perSecond.toFixed(1)}/s`);
  const meaning = (lock: (typeof forecast.locks)[number]) =>
    lock.queued === null
      ? '?'
      : lockForecastWords(lock, forecast)
          .map((words) => prose(words))
          .join('; ') || 'nobody would wait';
  const resources = resourceWords(forecast).map((words) => `- ${prose(words)}`);
  const part = { ...PART, title: `Forecast for the target, ${prose(basisWords(forecast))}`, importance: 7 };
  if (forecast.locks.length === 0) return { ...part, items: resources };
  return {
    ...part,
    head: ['| relation | lock | held | reads, rows written | what it would mean |', '|---|---|---|---|---|'],
    items: forecast.locks.map(
      (lock) =>
        `| ${code(lock.relation)} | ${lock.mode} | ${lock.heldMs === null ? '?' : formatDuration(lock.heldMs)} | ` +
        `${rate(lock.readsPerSecond)}, ${rate(lock.writesPerSecond)} | ${meaning(lock)} |`,
    ),
    foot: resources.length === 0 ? [] : ['', ...resources],
  };
}

function statementPart({ statements }: Report): Part {
  const slowest = statements.toSorted((one, other) => other.durationMs - one.durationMs);
  return {
    ...PART,
    title: `Statements: ${formatCount(statements.length)}, the slowest first`,
    importance: 4,
    head: ['| | statement | time | strongest lock |', '|---|---|---|---|'],
    items: slowest.map(
      (statement) =>
        `| ${statement.index} | ${code(statement.sql, 160)} | ${formatDuration(statement.durationMs)} | ${strongest(statement)} |`,
    ),
  };
}

function strongest({ locks }: StatementSection): string {
  const [lock] = (locks ?? [])
    .filter(({ relation }) => !/^pg_(catalog|toast)\./.test(relation))
    .toSorted((one, other) => other.blocks.length - one.blocks.length);
  return lock ? `${lock.mode} on ${code(lock.relation)}` : '';
}

function wayBackPart({ schema }: Report): Part | undefined {
  if (!schema?.rollbackSql) return undefined;
  const [head = '', body = '', foot = ''] = block('sql', schema.rollbackSql.trimEnd());
  const losses = schema.rollbackLoses.map((loss) => `- ${prose(loss)}`);
  return {
    title: 'The way back, as SQL',
    folded: true,
    importance: 3,
    head: losses.length > 0 ? ['It does not restore:', ...losses, '', head] : [head],
    items: body.split('\n'),
    foot: [foot],
  };
}

function caveatPart({ caveats }: Report): Part {
  return {
    ...PART,
    title: `Caveats: ${formatCount(caveats.length)}`,
    importance: 2,
    items: caveats.map(({ path, kind, reason }) => `- ${code(path)} (${kind}): ${prose(reason)}`),
  };
}
