import { listed, plural } from '../format.ts';
import type { HazardFacts } from '../model/hazard-facts.ts';
import { isBookkeeping } from '../model/migration-tables.ts';
import type {
  CommandSection,
  DataSection,
  Hazard,
  SchemaSection,
  StatementSection,
  TransactionSection,
} from '../model/report.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { bare, withoutLastPart } from '../postgres/sql/quote.ts';
import type { HazardTexts } from './hazard-definition.ts';
import { effectOfStatement, swallowedErrors } from './swallowed-errors.ts';

/** The command's exit code, and what happened in the server. */
export interface CommandOutcome {
  readonly command: Pick<CommandSection, 'exitCode' | 'reachedClone'>;
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly parsed: HazardFacts['parsed'];
  readonly sessionsOfPsql: HazardFacts['sessionsOfPsql'];
  readonly schema: Pick<SchemaSection, 'changes' | 'renames' | 'before' | 'after'> | null;
  readonly data: Pick<DataSection, 'tables' | 'written'> | null;
}

interface ExitCodeCheck extends HazardTexts {
  readonly severity: Hazard['severity'];
  readonly find: (
    outcome: CommandOutcome,
  ) => Pick<Hazard, 'statement' | 'relation' | 'message' | 'evidence'> | null;
}

/** Checks whether the exit code is true: a deploy script relies on nothing else. */
export const EXIT_CODE_CHECKS: readonly ExitCodeCheck[] = [
  {
    code: 'ERRORS_SWALLOWED',
    title: 'exit code 0, although statements failed',
    condition:
      'The command ended with exit code 0, and statements failed in the server that were not sent again with success. Errors that a tool expects do not count: it went back to a savepoint, or asked for its own table before it created that.',
    effect: 'The deployment continues as if the whole migration had succeeded; what did not fail stays.',
    safer:
      'Let the tool stop at the first error (psql: -v ON_ERROR_STOP=1), and let scripts pass on its exit code (set -eo pipefail).',
    severity: 'error',
    find: (outcome) => {
      if (outcome.command.exitCode !== 0) return null;
      const failed = swallowedErrors(outcome);
      const [first] = failed;
      if (!first?.error) return null;
      const { definitions, rows } = effectsOf(outcome);
      const stays = definitions.length + rows.length > 0;
      return {
        statement: first.index,
        relation: null,
        message: stays
          ? 'The command ended with exit code 0 although a part of it failed.'
          : 'The command ended with exit code 0 although it failed and changed nothing.',
        evidence: `${plural(failed.length, 'statement')} failed, the first: ${first.error.message} (SQLSTATE ${first.error.sqlstate}).`,
      };
    },
  },
  {
    code: 'NEVER_COMMITTED',
    title: 'exit code 0, although a transaction was left open',
    condition:
      'The command ended with exit code 0 and closed its session without COMMIT or ROLLBACK in a transaction that had changed something.',
    effect: 'The server rolls it back, and the deployment continues as if the migration had succeeded.',
    safer:
      'End every BEGIN with COMMIT (psql: --single-transaction does both), and let the tool commit before it closes the session.',
    severity: 'error',
    find: ({ command, statements, transactions, parsed }) => {
      if (command.exitCode !== 0) return null;
      for (const { transaction, outcome } of transactions) {
        const own = statements.filter((statement) => statement.transaction === transaction);
        const ended = own.some(
          ({ index, tag, error }) => error !== null || (tag === 'ROLLBACK' && !parsed.get(index)?.savepoint),
        );
        // pg_dump never ends its transaction, and many a tool calls it when it has migrated: it reads.
        const lost = own.filter(
          (statement) =>
            statement.tag !== null && !['none', 'reads'].includes(effectOfStatement(statement, parsed)),
        );
        const [first] = lost;
        if (outcome !== 'rolled back' || ended || !first) continue;
        return {
          statement: first.index,
          relation: null,
          message: 'The command ended with exit code 0 in an open transaction, which was rolled back.',
          evidence: `${plural(lost.length, 'statement')} in it had no effect, the first: ${first.tag}.`,
        };
      }
      return null;
    },
  },
  {
    code: 'HALF_APPLIED',
    title: 'the command failed, but a part of its changes was committed',
    condition: 'The command did not end with exit code 0, but a part of its changes was committed.',
    effect: 'The target would be left between two versions, and the next attempt would start from there.',
    safer:
      'Run each migration in one transaction; put statements that cannot run in one (CREATE INDEX CONCURRENTLY) into a separate migration that can be repeated.',
    severity: 'error',
    find: (outcome) => {
      const { definitions, rows } = effectsOf(outcome);
      // The tool may record its failure.
      const effects = [...new Set([...definitions, ...rows])].filter(
        (object) =>
          !isBookkeeping(object) && !definitions.some((definition) => definition.startsWith(`${object}.`)),
      );
      if (outcome.command.exitCode === 0 || effects.length === 0) return null;
      return {
        statement: outcome.statements.find(({ error }) => error !== null)?.index ?? null,
        relation: null,
        message: 'The command failed, but a part of its changes was committed.',
        evidence: `It changed ${listed(effects)}.`,
      };
    },
  },
  {
    code: 'BOOKKEEPING_ONLY',
    title: 'recorded as applied, although nothing changed',
    condition:
      'The tool wrote into its own table of applied migrations, and neither the schema nor other data changed. Not if the command made that table as well, and tried nothing else: a baseline.',
    effect: 'The migration counts as applied and will not be run again.',
    safer:
      'Check whether the migration is empty, skipped its work (IF NOT EXISTS), or ran on another database.',
    severity: 'warning',
    find: (outcome) => {
      const { definitions, rows } = effectsOf(outcome);
      const noted = rows.find((object) => isBookkeeping(object) && !LOCK_TABLE.test(object));
      const others = [...definitions, ...rows].some((object) => !isBookkeeping(object));
      if (outcome.command.exitCode !== 0 || noted === undefined || others) return null;
      const isFirst = outcome.schema?.changes.some(
        ({ verb, object }) => verb === 'create' && object === noted,
      );
      if (isFirst && !triedMore(outcome, noted)) return null;
      return {
        statement: null,
        relation: noted,
        message: 'The tool recorded migrations as applied, but nothing else changed.',
        evidence: `Only ${noted} changed.`,
      };
    },
  },
];

/** Finds hazards of the exit code; none if the command never connected to the clone, or its effects could not be read. */
export function findExitCodeHazards(outcome: CommandOutcome): Hazard[] {
  if (!outcome.command.reachedClone || outcome.schema === null || outcome.data === null) return [];
  return EXIT_CODE_CHECKS.flatMap(({ code, severity, safer, find }): Hazard[] => {
    const found = find(outcome);
    return found === null ? [] : [{ code, severity, ...found, advice: safer, allowed: false }];
  });
}

/** Tells if nothing changed; false if that is not known. */
export function changedNothing(outcome: CommandOutcome): boolean {
  if (!outcome.command.reachedClone || outcome.schema === null || outcome.data === null) return false;
  const { definitions, rows } = effectsOf(outcome);
  return definitions.length === 0 && rows.every((relation) => LOCK_TABLE.test(relation));
}

/** Tells if a statement would have changed something else than the tool's own tables: `CREATE TABLE IF NOT EXISTS orders`. */
function triedMore({ statements, parsed }: CommandOutcome, history: string): boolean {
  return statements.some((statement) => {
    const effect = effectOfStatement(statement, parsed);
    const words: readonly string[] = normalizeSql(statement.sql).match(/[\w$\u0080-\uffff]+/g) ?? [];
    const isOwn =
      words.some(isBookkeeping) ||
      (statement.tag === 'CREATE SCHEMA' && words.includes(bare(withoutLastPart(history))));
    return effect !== 'none' && effect !== 'reads' && !isOwn;
  });
}

/** Tools lock themselves with a row of such a table in every run. */
const LOCK_TABLE = /lock"?$/i;

/** Returns the names of what changed and was committed: definitions, and relations whose rows changed. */
function effectsOf({ schema, data, statements, transactions, parsed }: CommandOutcome) {
  const changes = [
    ...(schema?.changes ?? []).map(({ object }) => object),
    ...(schema?.renames ?? []).map(({ to }) => to),
  ];
  const again = madeAgain({ statements, transactions, parsed });
  const unnamed = changes.length === 0 && schema?.before !== schema?.after ? ['the schema'] : [];
  const rows = [
    ...(data?.tables ?? [])
      .filter(({ rowsBefore, rowsAfter, rewritten }) => rewritten || rowsBefore !== rowsAfter)
      .map(({ relation }) => relation),
    ...(data?.written ?? []).flatMap(({ relation, atMost }) => (atMost ? [] : [relation])),
    ...writtenRelations({ statements, transactions, parsed }),
  ];
  return { definitions: [...changes, ...unnamed, ...again].sort(), rows: [...new Set(rows)].sort() };
}

function committed(transactions: CommandOutcome['transactions']) {
  return new Set(
    transactions.filter(({ outcome }) => outcome === 'committed').map(({ transaction }) => transaction),
  );
}

/** Objects that committed statements drop and make again: if they are as before, the comparison of the schemas finds no change. */
function madeAgain({
  statements,
  transactions,
  parsed,
}: Pick<CommandOutcome, 'statements' | 'transactions' | 'parsed'>): string[] {
  const kept = committed(transactions);
  const done = statements.filter(
    ({ index, error, transaction, rolledBack }) =>
      error === null && !rolledBack && kept.has(transaction) && !parsed.get(index)?.local,
  );
  const kinds = new Set(done.flatMap(({ tag }) => /^DROP (.*)$/.exec(tag ?? '')?.[1] ?? []));
  return [...kinds].flatMap((kind) => {
    const last = done.findLast(({ tag }) => tag === `DROP ${kind}`);
    const made = done.some(
      ({ index, tag, sql }) =>
        last !== undefined &&
        index > last.index &&
        tag === `CREATE ${kind}` &&
        !/\b(?:IF NOT EXISTS|OR REPLACE)\b/i.test(normalizeSql(sql)),
    );
    return made ? [`a ${kind.toLowerCase()} that was dropped and made again`] : [];
  });
}

/** Relations whose rows a committed statement wrote, according to the locks that writing takes. */
function writtenRelations({
  statements,
  transactions,
  parsed,
}: Pick<CommandOutcome, 'statements' | 'transactions' | 'parsed'>): string[] {
  const kept = committed(transactions);
  return statements
    .filter((statement) => {
      const { error, rows, transaction, rolledBack } = statement;
      const wrote = effectOfStatement(statement, parsed) === 'rows' && (rows ?? 1) > 0;
      return wrote && error === null && !rolledBack && kept.has(transaction);
    })
    .flatMap(({ locks }) => locks ?? [])
    .filter(({ mode }) => mode === 'ROW EXCLUSIVE' || mode === 'ACCESS EXCLUSIVE')
    .map(({ relation, indexOf = relation }) => indexOf);
}
