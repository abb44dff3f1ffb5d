import type { EffectFacts } from '../model/effect-facts.ts';
import type { ProbeDifference } from '../model/probe-difference.ts';
import type { Hazard, StatementSection } from '../model/report.ts';
import { bare, nameParts, withoutLastPart } from '../postgres/sql/quote.ts';
import type { HazardContext } from './hazard-context.ts';
import type { Finding } from './hazard-definition.ts';

// Other hazards that explain why a probe has another result.

/** Codes that explain a refusal, by its SQLSTATE. */
const EXPLAINS_REFUSAL: Readonly<Record<string, readonly string[]>> = {
  '22001': ['COLUMN_RETYPED'],
  '22003': ['COLUMN_RETYPED'],
  '22P02': ['ENUM_VALUE_RENAMED', 'ENUM_VALUE_REMOVED', 'FUNCTION_BREAKS'],
  '23502': ['WRITES_BREAK', 'NEW_COLUMN_REQUIRED', 'DEFAULT_CHANGED'],
  '3F000': ['TABLE_RENAMED', 'OBJECT_RENAMED', 'OBJECT_DROPPED'],
  '428C9': ['TABLE_DROPPED'],
  '42501': [
    'PRIVILEGES_REVOKED',
    'NEW_OBJECT_NOT_GRANTED',
    'GRANTS_NOT_RESTORED',
    'SEQUENCE_NOT_GRANTED',
    'POLICY_CHANGED',
  ],
  '42703': ['COLUMN_RENAMED', 'COLUMN_DROPPED', 'FUNCTION_BREAKS', 'TABLE_DROPPED'],
  '42P10': ['CONSTRAINT_DROPPED'],
  '42P01': ['TABLE_RENAMED', 'TABLE_DROPPED', 'OBJECT_RENAMED', 'OBJECT_DROPPED', 'FUNCTION_BREAKS'],
  '42883': ['FUNCTION_BREAKS', 'OBJECT_DROPPED', 'OBJECT_RENAMED'],
  '42704': ['OBJECT_DROPPED', 'OBJECT_RENAMED'],
  '55000': ['REPLICA_IDENTITY_LOST'],
};
/** Refusals that the server finds when a statement of running code is prepared. */
const WHEN_PREPARED = new Set(['428C9', '42703', '42704', '42804', '42883', '42P01']);
/** Codes that explain a refusal only if it names their object. */
const BY_NAME = ['OBJECT_DROPPED', 'OBJECT_RENAMED'];
/** Codes that explain any refusal, because code runs with each row. */
const BY_TRIGGER = ['TRIGGER_ADDED'];

const EXPLAINS: Readonly<Record<ProbeDifference['kind'], readonly string[]>> = {
  'accepts less': [],
  'accepts more': ['CONSTRAINT_DROPPED', 'TRIGGER_OFF', 'NOT_NULL_DROPPED', 'COLUMN_DROPPED'],
  'reads differ': ['POLICY_CHANGED', 'TABLE_TRUNCATED', 'DETACH_PARTITION_NOT_CONCURRENT'],
  'sequence behind': [],
};

/** Tells if the cause is reported for itself: another definition of a constraint, or a sequence with values in use. */
export function isToldOtherwise(
  { relation, subject, constraint, sqlstate }: ProbeDifference,
  { probes, redefined }: Pick<EffectFacts, 'probes' | 'redefined'>,
): boolean {
  const isKey = sqlstate === '23505' || sqlstate === '2200H';
  return (
    redefined.some(
      ({ kind, name, relation: table }) =>
        kind === 'constraint' &&
        (name === bare(subject ?? '') || (name === constraint && table !== relation)),
    ) ||
    (isKey && probes.some((other) => other.kind === 'sequence behind' && other.relation === relation))
  );
}

/** Tells if a hazard that was found explains the other result of a probe. */
export function explains(
  context: HazardContext,
  finding: Finding & Pick<Hazard, 'code'>,
  probe: ProbeDifference,
): boolean {
  const { code, relation, message, evidence } = finding;
  if (code === 'QUERY_BREAKS')
    return probe.callsPerSecond !== undefined && WHEN_PREPARED.has(probe.sqlstate ?? '');
  const byTrigger =
    probe.kind === 'accepts less' && probe.probe !== 'SELECT of a row' && BY_TRIGGER.includes(code);
  const codes =
    probe.kind === 'accepts less' ? (EXPLAINS_REFUSAL[probe.sqlstate ?? ''] ?? []) : EXPLAINS[probe.kind];
  if (!byTrigger && !codes.includes(code)) return false;
  // The probe ran the function, in a default or a view, if it fails for the same reason.
  if (code === 'FUNCTION_BREAKS' && relation === null)
    return evidence.includes(probe.after.replace(/ \(SQLSTATE \w+\)$/, ''));
  if (relation === null && BY_NAME.includes(code)) return isAboutNamed(context, finding, probe);
  // ON CONFLICT needs this constraint and no other.
  if (probe.sqlstate === '42P10' && !isNamed(message, bare(probe.subject ?? ''))) return false;
  // A finding about a type or a function has no relation.
  if (relation === null || context.former(relation) === probe.relation || relation === probe.relation)
    return true;
  // A probe of a foreign key names the other table, too; code that the probe runs is another matter.
  const isGone = probe.sqlstate === '42P01' || probe.sqlstate === '42703';
  return (
    isGone && isNamed(probe.sql, bare(context.former(relation))) && isAboutNamed(context, finding, probe)
  );
}

/** Tells if the server's refusal names the dropped or renamed object of a finding. */
function isAboutNamed({ facts }: HazardContext, { message }: Finding, { after }: ProbeDifference): boolean {
  const { changes = [], renames = [] } = facts.schema ?? {};
  const gone = [
    ...changes.filter(({ verb }) => verb === 'drop').map(({ object }) => object),
    ...renames.map(({ from }) => from),
  ];
  return gone.some(
    (object) => isNamed(message, object) && isNamed(after, bare(object.replace(/\(.*\)$/s, ''))),
  );
}

/**
 * The last statement that names an object and locks it, or the table that it belongs to; else the last one that names it, by its
 * schema or the search path.
 */
export function lastNaming(context: HazardContext, object: string): number | null {
  const name = bare(object);
  const naming = context.facts.statements.filter(({ error, sql }) => error === null && isNamed(sql, name));
  const table = withoutLastPart(object);
  const lockedBy = ({ locks }: StatementSection) => (locks ?? []).map(({ relation }) => relation);
  const isOfAnother = (each: StatementSection) => lockedBy(each).some((relation) => bare(relation) === name);
  const found =
    naming.findLast((each) => lockedBy(each).some((relation) => relation === object || relation === table)) ??
    naming.findLast((each) => !isOfAnother(each) && canMean(each, object, context));
  return found?.index ?? null;
}

const QUALIFIER = /(?:"([^"]+)"|(\w+))\s*\.\s*"?$/;

/** Tells if a statement that has the name of an object means the one in its schema. */
function canMean(statement: StatementSection, object: string, context: HazardContext): boolean {
  const [schema, name, ...more] = nameParts(object);
  if (schema === undefined || name === undefined || more.length > 0) return true;
  const mentions = statement.sql.split(name).slice(0, -1);
  return mentions.some((before) => {
    const [, quoted, plain] = QUALIFIER.exec(before) ?? [];
    return context.reaches({ schema: quoted ?? plain?.toLowerCase() ?? null, name }, schema, statement);
  });
}

/** Tells if a text has a name, and not as a part of a longer one. */
export function isNamed(text: string, name: string): boolean {
  return text.split(name).some((before, at, parts) => {
    const after = parts[at + 1];
    return after !== undefined && !/\w$/.test(before) && !/^\w/.test(after);
  });
}
