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
import type { HazardTexts } from './hazard-definition.ts';
import { effectOfStatement } from './statement-effect.ts';

/** What the command's exit code says, and what the server saw. */
export interface Account {
  readonly command: Pick<CommandSection, 'exitCode' | 'reachedClone'>;
  readonly statements: readonly StatementSection[];
  readonly transactions: readonly TransactionSection[];
  readonly parsed: HazardFacts['parsed'];
  readonly schema: Pick<SchemaSection, 'changes' | 'renames' | 'before' | 'after'> | null;
  readonly data: Pick<DataSection, 'tables' | 'written'> | null;
}

interface HonestyRecord extends HazardTexts {
  readonly severity: Hazard['severity'];
  readonly find: (account: Account) => Pick<Hazard, 'statement' | 'relation' | 'message' | 'evidence'> | null;
}

/** Whether the exit code can be trusted: a deploy script goes by nothing else. */
export const EXIT_CODE_CHECKS: readonly HonestyRecord[] = [
  {
    code: 'ERRORS_SWALLOWED',
    title: 'Exit code 0 although statements failed and nothing changed',
    condition:
      'The command ended with exit code 0, the server refused statements of it, and nothing was changed.',
    effect: 'The deployment goes on as if it had been migrated.',
    safer:
      'Let the tool stop at the first error (psql: -v ON_ERROR_STOP=1), and let scripts hand its exit code on (set -eo pipefail).',
    severity: 'error',
    find: (account) => {
      const failed = account.statements.filter(({ error }) => error !== null);
      const [first] = failed;
      const { definitions, rows } = effectsOf(account);
      if (account.command.exitCode !== 0 || !first?.error || definitions.length + rows.length > 0)
        return null;
      return {
        statement: first.index,
        relation: null,
        message: 'The command ended with exit code 0 although it failed and changed nothing.',
        evidence: `${plural(failed.length, 'statement')} failed, the first: ${first.error.message} (SQLSTATE ${first.error.sqlstate}).`,
      };
    },
  },
  {
    code: 'NEVER_COMMITTED',
    title: 'Exit code 0 although a transaction was left open',
    condition:
      'The command ended with exit code 0 and closed its session in a transaction that had changed something, without COMMIT or ROLLBACK.',
    effect: 'The server rolls it back: the deployment goes on as if it had been migrated.',
    safer:
      'End every BEGIN with COMMIT (psql: --single-transaction does both), and let the tool commit before it closes.',
    severity: 'error',
    find: ({ command, statements, transactions, parsed }) => {
      if (command.exitCode !== 0) return null;
      for (const { transaction, outcome } of transactions) {
        const own = statements.filter((statement) => statement.transaction === transaction);
        const ended = own.some(
          ({ index, tag, error }) =>
            error !== null || (tag === 'ROLLBACK' && !parsed.get(index)?.toSavepoint),
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
          evidence: `${plural(lost.length, 'statement')} in it came to nothing, the first: ${first.tag}.`,
        };
      }
      return null;
    },
  },
  {
    code: 'HALF_APPLIED',
    title: 'It failed, and what it did before that stays',
    condition: 'The command did not end with exit code 0, and a part of its changes was committed.',
    effect: 'The target would be left between two versions, and the next attempt starts from there.',
    safer:
      'Put each migration into one transaction; what cannot run in one (CREATE INDEX CONCURRENTLY) goes into a migration of its own that can be repeated.',
    severity: 'error',
    find: (account) => {
      const { definitions, rows } = effectsOf(account);
      // That the tool noted its failure is as it should be.
      const effects = [...new Set([...definitions, ...rows])].filter((object) => !isBookkeeping(object));
      if (account.command.exitCode === 0 || effects.length === 0) return null;
      return {
        statement: account.statements.find(({ error }) => error !== null)?.index ?? null,
        relation: null,
        message: 'The command failed, and a part of what it did stays.',
        evidence: `Committed: ${listed(effects)}.`,
      };
    },
  },
  {
    code: 'BOOKKEEPING_ONLY',
    title: 'Noted as done, and nothing done',
    condition:
      'The tool wrote into the table in which it notes what ran, and neither schema nor other data changed.',
    effect: 'The migration counts as applied from now on and will not be run again.',
    safer:
      'Look whether the migration is empty, skipped what it should do (IF NOT EXISTS), or ran elsewhere.',
    severity: 'warning',
    find: (account) => {
      const { definitions, rows } = effectsOf(account);
      const noted = rows.find((object) => isBookkeeping(object) && !LOCK_TABLE.test(object));
      const others = [...definitions, ...rows].some((object) => !isBookkeeping(object));
      if (account.command.exitCode !== 0 || noted === undefined || others) return null;
      return {
        statement: null,
        relation: noted,
        message: 'The tool noted migrations as done, and nothing else changed.',
        evidence: `Only ${noted} changed.`,
      };
    },
  },
];

/** Nothing of it is said where the command was never seen to work on the clone, or its effects could not be read. */
export function findExitCodeHazards(account: Account): Hazard[] {
  if (!account.command.reachedClone || account.schema === null || account.data === null) return [];
  return EXIT_CODE_CHECKS.flatMap(({ code, severity, safer, find }): Hazard[] => {
    const found = find(account);
    return found === null ? [] : [{ code, severity, ...found, advice: safer, allowed: false }];
  });
}

/** Tools lock themselves by a row of it in every run. */
const LOCK_TABLE = /lock"?$/i;

interface Effects {
  readonly definitions: readonly string[];
  /** Relations whose rows changed. */
  readonly rows: readonly string[];
}

/** What changed and stays, by name; what was rolled back is no effect. */
function effectsOf({ schema, data, statements, transactions, parsed }: Account): Effects {
  const changes = [
    ...(schema?.changes ?? []).map(({ object }) => object),
    ...(schema?.renames ?? []).map(({ to }) => to),
  ];
  const unnamed = changes.length === 0 && schema?.before !== schema?.after ? ['the schema'] : [];
  // The server counts what was rolled back as written too.
  const allKept = transactions.every(({ outcome }) => outcome === 'committed');
  const rows = [
    ...(data?.tables ?? [])
      .filter(({ rowsBefore, rowsAfter, rewritten }) => rewritten || rowsBefore !== rowsAfter)
      .map(({ relation }) => relation),
    ...(allKept ? (data?.written ?? []) : []).map(({ relation }) => relation),
    ...writtenRelations({ statements, transactions, parsed }),
  ];
  return { definitions: [...changes, ...unnamed].sort(), rows: [...new Set(rows)].sort() };
}

/** Relations that a committed statement wrote rows of, by the locks that writing takes. */
function writtenRelations({
  statements,
  transactions,
  parsed,
}: Pick<Account, 'statements' | 'transactions' | 'parsed'>): string[] {
  const kept = new Set(
    transactions.filter(({ outcome }) => outcome === 'committed').map(({ transaction }) => transaction),
  );
  return statements
    .filter((statement) => {
      const { error, rows, transaction } = statement;
      const wrote = effectOfStatement(statement, parsed) === 'rows' && (rows ?? 1) > 0;
      return wrote && error === null && kept.has(transaction);
    })
    .flatMap(({ locks }) => locks ?? [])
    .filter(({ mode }) => mode === 'ROW EXCLUSIVE' || mode === 'ACCESS EXCLUSIVE')
    .map(({ relation }) => relation);
}
