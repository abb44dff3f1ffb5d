import { formatRate, listed } from '../../format.ts';
import type { ProbeDifference } from '../../model/probe-difference.ts';
import type { Hazard } from '../../model/report.ts';
import {
  bare,
  displayName,
  identifier,
  lastPart,
  literal,
  nameParts,
  withoutLastPart,
} from '../../postgres/sql/quote.ts';
import { withTrial } from '../evidence.ts';
import { explains, isNamed, isToldOtherwise, lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, type HazardTexts, sqlAdvice } from '../hazard-definition.ts';
import { causesOf, causeWords, onlyOf } from '../probe-causes.ts';
import { type Severity, weighBreakage, worst } from '../severity.ts';
import { LONGEST_SQL } from '../thresholds.ts';
import { isSeldom } from './queries.ts';

type Coded = Finding & Pick<Hazard, 'code'>;

const TEXTS: Readonly<Record<ProbeDifference['kind'], HazardTexts>> = {
  'accepts less': {
    code: 'ACCEPTS_LESS',
    title: 'the database refuses statements that it accepted before',
    condition:
      'A probe was accepted before the command and is refused after it, or writes no row any more. Probes are reads and writes like those of an application: INSERT like an existing row, with required columns alone, with ON CONFLICT, and with the columns that INSERTs of pg_stat_statements, the profile or --queries name; UPDATE, DELETE, the longest value of a column. They are tried on the clone, as the role that has most privileges on the table, and rolled back. A refusal by a constraint that the command added to the table under a new name does not count; a notice if a new foreign key keeps rows that could be deleted before. An error if running code sends the INSERT at least once an hour.',
    effect: 'Running code that does the same fails, or its writes are lost without an error.',
    safer: 'Release code that does without it first, or change the migration so that the probe is accepted.',
  },
  'accepts more': {
    code: 'ACCEPTS_MORE',
    title: 'the database accepts statements that it refused before',
    condition:
      'A probe was refused by a constraint before the command and is accepted after it: a second row with the same key, a reference to a row that does not exist, a value that a CHECK refused. They are tried on the clone and rolled back. Or a view has lost its CHECK OPTION.',
    effect:
      'Nothing fails, and rows are stored that code was never written for; the rule cannot be restored later until they are removed.',
    safer: 'Keep the constraint until code enforces the rule itself.',
  },
  'reads differ': {
    code: 'READS_DIFFER',
    title: 'the same query returns other rows',
    condition:
      'A query of a table, view or parent returns another number of rows than before the command, although the command wrote no row of it; or an index on an expression, or a partial one, misses a row that a scan finds. Each role with privileges on the relation tries it.',
    effect: 'Queries succeed and return wrong, missing or other rows.',
    safer: 'Compare the results of the query before and after; REINDEX an index whose function has changed.',
  },
  'sequence behind': {
    code: 'SEQUENCE_BEHIND',
    title: 'a sequence returns values that are in use already, or none',
    condition:
      'After the command the next value of a sequence is not greater than the greatest value of the unique column that it fills, or is beyond its limits, and was not before. Or a sequence that no column owns is set back to a value that it has passed; not if all columns that it fills have lower values. A warning for a sequence that becomes CYCLE.',
    effect:
      'INSERTs fail with SQLSTATE 23505, at once or when the sequence reaches the first value in use; or with 2200H. If nothing is unique, numbers are given twice.',
    safer: 'End the migration with setval(…, (SELECT max(…) FROM …)).',
  },
};

/** Find what no probe tries, in the catalogue. */
const UNTRIED: Readonly<Record<string, (context: HazardContext) => Finding[]>> = {
  SEQUENCE_BEHIND: (context) => [...setBack(context), ...cycling(context)],
  ACCEPTS_MORE: uncheckedViews,
};

/** Hazards that were tried. Their findings depend on all others: nothing that one of them explains is reported twice. */
export const TRIED: readonly HazardRecord[] = Object.values(TEXTS).map((texts) => ({
  ...texts,
  find: UNTRIED[texts.code] ?? (() => []),
}));

/** Sequences that no column owns. No unique column shows which of their values are used. */
function setBack(context: HazardContext): Finding[] {
  const { effects } = context.facts.catalogue;
  const isTold = (sequence: string) => effects.probes.some(({ probe }) => probe === `value of ${sequence}`);
  return effects.setBack
    .filter(({ sequence }) => !isTold(sequence))
    .map(({ sequence, before, after, fills }): Finding => {
      const [first] = fills;
      return {
        statement: lastNaming(context, sequence),
        relation: first?.relation ?? null,
        severity: first ? 'error' : 'warning',
        message: `${sequence} is set back, and gives values again that it has given`,
        evidence: `next value before ${before}, after ${after}${first ? `; it fills ${listed(fills.map(({ relation, column }) => `${relation}.${column}`))}` : '; no column shows which values are in use'}`,
        advice: sqlAdvice(
          'At the end of the migration, unless the same values are wanted again:',
          `SELECT setval(${literal(sequence)}, ${before}, false)`,
        ),
      };
    });
}

/** Sequences that begin again once they have reached their last value. */
function cycling(context: HazardContext): Finding[] {
  return context
    .changes('alter', 'sequence')
    .filter(({ sql }) => /(?<!\bNO )\bCYCLE\b/.test(sql))
    .map(({ object }) => ({
      statement: lastNaming(context, object),
      relation: null,
      severity: 'warning',
      message: `${object} begins again after its last value (CYCLE), and then gives values twice`,
      evidence: 'its definition after the command',
      advice: sqlAdvice('Unless the same values are wanted again:', `ALTER SEQUENCE ${object} NO CYCLE`),
    }));
}

/** Views that have lost their CHECK OPTION, unless a probe shows it. */
function uncheckedViews(context: HazardContext): Finding[] {
  const isTold = (view: string) =>
    context.facts.catalogue.effects.probes.some(
      ({ kind, relation }) => kind === 'accepts more' && relation === view,
    );
  return context
    .changes('alter', 'view')
    .filter(({ sql, object }) => /\bRESET \(check_option\)/.test(sql) && !isTold(object))
    .map(({ object }) => ({
      statement: lastNaming(context, object),
      relation: object,
      severity: 'warning',
      message: `${object} has no CHECK OPTION any more: rows that it does not show can be written through it`,
      evidence: 'its definition before and after the command',
      advice: sqlAdvice('To refuse them again:', `ALTER VIEW ${object} SET (check_option = cascaded)`),
    }));
}

/** Tells if a code is one of a probe that no other hazard explains. */
export function isTried(code: string): boolean {
  return TRIED.some((texts) => texts.code === code);
}

const TOO_LARGE = '54000';
const REFERENCED = '23503';

/** Codes whose notice becomes a warning if it was tried that running code is refused or reads something else. */
const RAISED = new Set([
  'COLUMN_RETYPED',
  'NEW_COLUMN_REQUIRED',
  'DEFAULT_CHANGED',
  'PRIVILEGES_REVOKED',
  'POLICY_CHANGED',
  'TRIGGER_ADDED',
  'CONSTRAINT_DROPPED',
  'DETACH_PARTITION_NOT_CONCURRENT',
]);

/** Adds the trials to the findings that explain them, and new findings for the others. */
export function withProbes(context: HazardContext, findings: readonly Coded[]): Coded[] {
  const { effects } = context.facts.catalogue;
  const explained = new Map<Coded, ProbeDifference[]>();
  const open = new Map<string, ProbeDifference[]>();
  for (const probe of effects.probes.filter((each) => !isToldOtherwise(each, effects))) {
    const explaining = findings.find((finding) => explains(context, finding, probe));
    if (explaining) explained.set(explaining, [...(explained.get(explaining) ?? []), probe]);
    else {
      const key = `${probe.kind} ${probe.relation}`;
      open.set(key, [...(open.get(key) ?? []), probe]);
    }
  }
  const untold = [...open.values()].flatMap(([first, ...more]) =>
    first ? [told(context, first, more)] : [],
  );
  return [...findings.map((finding) => withTried(context, finding, explained.get(finding))), ...untold];
}

function withTried(
  context: HazardContext,
  finding: Coded,
  tried: readonly ProbeDifference[] | undefined,
): Coded {
  const [first] = tried ?? [];
  if (!first) return finding;
  const isRaised = RAISED.has(finding.code) && isUsed(context, first);
  return {
    ...finding,
    // What a trigger does is only known from a trial.
    message:
      finding.code === 'TRIGGER_ADDED'
        ? `${finding.message}, and ${withArticle(first.probe)} is no longer accepted`
        : finding.message,
    severity: isRaised ? worst([finding.severity, severityBySent(tried ?? [])]) : finding.severity,
    // A finding without a relation is about several.
    statement: finding.statement ?? (finding.relation === null ? null : onlyOf(causesOf(context, first))),
    evidence: withTrial(finding.evidence, resultOf(first)),
  };
}

/** Running code sends it, a role of an application has privileges, or there are rows enough. */
function isUsed(context: HazardContext, { relation, role, callsPerSecond }: ProbeDifference): boolean {
  return callsPerSecond !== undefined || role !== null || weighBreakage(context, relation) !== 'notice';
}

function severityBySent(probes: readonly ProbeDifference[]): Severity {
  const sent = probes.flatMap(({ callsPerSecond }) =>
    callsPerSecond === undefined ? [] : { callsPerSecond },
  );
  return sent.length > 0 && !isSeldom(sent) ? 'error' : 'warning';
}

function told(context: HazardContext, first: ProbeDifference, more: readonly ProbeDifference[]): Coded {
  const { kind, relation } = first;
  const causes = causesOf(context, first);
  return {
    code: TEXTS[kind].code,
    statement: onlyOf(causes),
    relation,
    severity: severityOf(context, first, more),
    message: messageOf(first, more),
    evidence: `${resultOf(first)}${causeWords(causes)}`,
    advice: adviceOf(context, first),
  };
}

function adviceOf(context: HazardContext, { kind, relation, subject, sql, remedy }: ProbeDifference): string {
  if (remedy !== null && kind === 'reads differ')
    return sqlAdvice('After the migration, outside of a transaction:', remedy);
  if (remedy !== null) return sqlAdvice('At the end of the migration:', remedy);
  const former = formerDefinitions(context, relation, subject);
  return former.length > 0
    ? sqlAdvice('The definition before, if running code needs it:', ...former)
    : sqlAdvice('Try it on a copy that is migrated, in a transaction that you roll back:', sql);
}

/** Statements of the rollback SQL about the constraint, index or column of a probe, or else about its relation. */
function formerDefinitions(context: HazardContext, relation: string, subject: string | null): string[] {
  const statements = (context.facts.schema?.rollbackSql ?? '')
    .split(/;\n/)
    .map((sql) => sql.trim())
    .filter(
      (sql) => !/^(?:DROP|GRANT|REVOKE|COMMENT|ALTER TABLE \S+ DROP (?:CONSTRAINT|COLUMN))\b/.test(sql),
    );
  const naming = (parts: readonly string[]) => {
    const names = [displayName(...parts), parts.map(identifier).join('.')];
    return statements.filter((sql) => names.some((name) => isNamed(sql, name)));
  };
  const ofSubject = subject === null ? [] : naming([bare(lastPart(subject))]);
  const found = (ofSubject.length > 0 ? ofSubject : naming(nameParts(relation))).map(onOneLine);
  return found.length <= MOST_STATEMENTS &&
    found.every((sql) => sql.length <= LONGEST_SQL && !sql.includes('\n'))
    ? found
    : [];
}

const MOST_STATEMENTS = 3;

/** Joins the lines of a statement that has no texts and comments, in which a line may end. */
function onOneLine(sql: string): string {
  return /\$|--|'[^']*\n/.test(sql) ? sql : sql.replace(/\s*\n\s*/g, ' ');
}

function severityOf(
  context: HazardContext,
  first: ProbeDifference,
  more: readonly ProbeDifference[],
): Severity {
  const all = [first, ...more];
  // Only the application knows if a value is ever as long as an index takes.
  if (
    all.some(({ constraint }) => constraint !== null) &&
    all.every(({ sqlstate }) => sqlstate === TOO_LARGE)
  )
    return 'notice';
  if (all.every((probe) => isOfNewReference(context, probe))) return 'notice';
  const isDetached = context.actionsOn('detach partition').some((each) => each.relation === first.relation);
  if (isDetached) return 'notice';
  return worst([severityBySent(all), weighBreakage(context, first.relation)]);
}

/** Tells if a new foreign key, and not one in place of another, keeps a row that could be deleted before: its purpose. */
function isOfNewReference({ facts }: HazardContext, { sqlstate, constraint }: ProbeDifference): boolean {
  const changes = (facts.schema?.changes ?? []).filter(({ kind }) => kind === 'constraint');
  const made = changes.find(({ verb, object }) => verb === 'create' && bare(lastPart(object)) === constraint);
  if (sqlstate !== REFERENCED || !made) return false;
  const table = withoutLastPart(made.object);
  return !changes.some(({ verb, object }) => verb === 'drop' && withoutLastPart(object) === table);
}

function messageOf(
  { kind, relation, probe, subject, role }: ProbeDifference,
  more: readonly ProbeDifference[],
): string {
  if (kind === 'sequence behind')
    return `the next ${probe} is one that ${relation}.${subject} already has, or none at all`;
  const does = {
    'accepts less': 'refuses',
    'accepts more': 'accepts',
    'reads differ': 'returns another result for',
  }[kind];
  const others = [...new Set(more.map((each) => each.probe))].filter((other) => other !== probe);
  const about = subject === null ? relation : `${relation} (${subject})`;
  const tried = listed([withArticle(probe), ...others]);
  return `${about} ${does} ${tried}${role === null ? '' : ` as ${role}`}`;
}

function withArticle(probe: string): string {
  return `${/^[AEIOU]/.test(probe) ? 'an' : 'a'} ${probe}`;
}

function resultOf({ probe, role, before, after, callsPerSecond }: ProbeDifference): string {
  const rate = callsPerSecond == null ? '' : ` (${formatRate(callsPerSecond)})`;
  return `${probe}${rate}${role === null ? '' : ` as ${role}`}: before ${before}, after ${after}`;
}
