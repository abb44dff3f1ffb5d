import type { ApplySection, Caveat, SchemaSection, StatementSection } from '../model/report.ts';
import type { Rehearsed } from '../rehearsal/receipts/rehearsed.ts';
import { compareSchemas, compareTimes, failedOnlyHere, lostRows, unlikeStatements } from './compare-apply.ts';
import { bookkeepingOf } from './migration-history.ts';
import { type ApplyFacts, decideOutcome } from './outcome.ts';
import { readTargetAfter, type TargetAfter, type TargetReading } from './read-target-after.ts';
import type { RetryEvidence } from './retry/retry-eligibility.ts';

export interface OutcomeParts extends TargetReading {
  /** Fingerprint of the target's schema right before the command. */
  readonly fingerprint: string;
  readonly rehearsed: Rehearsed;
  readonly rehearsedSchema: SchemaSection | null;
  readonly mustChange: boolean;
  readonly command: NonNullable<ApplySection['command']>;
  /** Reason why the run ended the command early. */
  readonly aborted: string | null;
  /** Number of the last statement of earlier attempts; 0 if there were none. */
  readonly earlier: number;
}

/** The state of the target after the command, with the evidence for deciding whether the command may be run again. */
export type InspectedOutcome = Awaited<ReturnType<typeof inspectOutcome>>;

type SchemaOutcome = ReturnType<typeof compareSchemas>;

/** Finds out what the command has left in the target, and decides what that means. */
export async function inspectOutcome(parts: OutcomeParts) {
  const after = await readTargetAfter(parts);
  const { rehearsedSchema } = parts;
  const otherValues = parts.proxy.happened()?.diverged.some(({ onlyValues }) => onlyValues) ?? false;
  const comparison =
    after.schema && rehearsedSchema && compareSchemas(rehearsedSchema, after.schema, otherValues);
  const byValues = comparison?.equal && after.schema?.after !== rehearsedSchema?.after && otherValues;
  const leftovers = (after.schema?.leftovers ?? []).filter(({ preexisting }) => !preexisting);
  const facts = factsOf(parts, after, comparison, leftovers);
  const { statements, transactions } = after;
  return {
    section: await sectionOf(parts, after, comparison, leftovers, facts),
    caveats: [
      ...after.caveats.map((caveat) => ({ ...caveat, path: `apply.${caveat.path}` })),
      ...(byValues ? [COMPARED_WITHOUT_LITERALS] : []),
    ],
    evidence: { facts, statements, transactions, during: parts.proxy.happened() } satisfies RetryEvidence,
  };
}

const COMPARED_WITHOUT_LITERALS: Caveat = {
  path: 'apply.schemaEqual',
  kind: 'estimate',
  reason:
    'statements had other values than in the rehearsal, so that the schemas were compared without literals',
};

type Leftovers = SchemaSection['leftovers'];

function factsOf(
  { proxy, fingerprint, rehearsed, rehearsedSchema, command, mustChange, aborted, earlier }: OutcomeParts,
  { schema, statements, committed, stillRunning, moved, unreadable }: TargetAfter,
  comparison: SchemaOutcome | null,
  leftovers: Leftovers,
): ApplyFacts {
  const expected = new Set(rehearsedSchema?.leftovers.map(({ kind, object }) => `${kind} ${object}`));
  return {
    command,
    committed,
    stillRunning,
    mustChange,
    aborted,
    moved,
    unreadable,
    reached: proxy.reached(),
    failedOnlyHere: failedOnlyHere(
      rehearsed,
      statements.filter(({ index }) => index > earlier),
    ),
    schemaChanged: schema && schema.after !== fingerprint,
    schemaEqual: comparison?.equal ?? null,
    differences: comparison?.differences ?? [],
    leftovers: leftovers.filter(({ kind, object }) => !expected.has(`${kind} ${object}`)),
  };
}

async function sectionOf(
  { proxy, fingerprint, rehearsed, rehearsedSchema, earlier }: OutcomeParts,
  { statements, transactions, committed, rolledBack, schema }: TargetAfter,
  comparison: SchemaOutcome | null,
  leftovers: Leftovers,
  facts: ApplyFacts,
) {
  const decided = decideOutcome(facts);
  const transactionOf = new Map(statements.map(({ index, transaction }) => [index, transaction]));
  const rehearsedTexts = rehearsed.statements.map(({ sql }) => sql);
  const ofLastAttempt = statements.filter(({ index }) => index > earlier);
  return {
    ...decided,
    statements: [...statements],
    transactions,
    during: proxy.happened(),
    schemaEqual: facts.schemaEqual,
    fingerprints: { before: fingerprint, after: schema?.after ?? null },
    differences: [
      ...facts.differences,
      ...unlikeStatements(proxy.happened()?.diverged ?? []),
      ...lostRows(rehearsed, ofLastAttempt),
    ],
    leftovers: leftovers.map(({ kind, object }) => ({ kind, object })),
    comparedTimes: compareTimes(rehearsed, ofLastAttempt),
    committed: withReportedTexts(statements, committed),
    rolledBack: withReportedTexts(statements, rolledBack),
    wayBack: rollbackSqlOf(schema, comparison?.equal ? rehearsedSchema : null),
    bookkeeping:
      decided.outcome === 'partly' ? await bookkeepingOf(committed, transactionOf, rehearsedTexts) : null,
  } satisfies Partial<ApplySection>;
}

/** The rehearsal recognizes renames, and so has SQL for some changes for which the target's own comparison has none. */
function rollbackSqlOf(schema: SchemaSection | null, rehearsed: SchemaSection | null): string | null {
  if (schema === null || schema.before === schema.after) return null;
  return schema.rollbackSql ?? rehearsed?.rollbackSql ?? null;
}

function withReportedTexts(
  statements: readonly StatementSection[],
  effects: ApplySection['committed'],
): ApplySection['committed'] {
  const sql = new Map(statements.map((each) => [each.index, each.sql]));
  return effects.map((effect) => ({ ...effect, sql: sql.get(effect.statement) ?? effect.sql }));
}
