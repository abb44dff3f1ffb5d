import { setTimeout as delay } from 'node:timers/promises';
import { movedBetween, readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import type { Target } from '../database/target.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { ApplySection, Caveat, SchemaSection, StatementSection } from '../model/report.ts';
import { relationNames } from '../observe/relation-names.ts';
import { schemaWithoutSecrets } from '../observe/statement-secrets.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Rehearsed } from '../rehearsal/receipts/rehearsed.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import { compareSchemas, compareTimes } from './compare-apply.ts';
import { effectsOf } from './effects.ts';
import type { GuardedWatch } from './guardrails/guarded-proxy.ts';
import { bookkeepingOf } from './migration-history.ts';
import { decideOutcome, type Ended } from './outcome.ts';
import type { TransactionWatch } from './own-transaction-ids.ts';
import type { RetryEvidence } from './retry/retry-eligibility.ts';

export interface OutcomeParts {
  readonly target: Target;
  readonly run: RunId;
  readonly audit: Audit;
  readonly wire: GuardedWatch;
  readonly transactions: TransactionWatch;
  readonly schema: SchemaWatch;
  /** Of the target right before the command. */
  readonly fingerprint: string;
  readonly place: ServerIdentity;
  readonly rehearsed: Rehearsed;
  readonly rehearsedSchema: SchemaSection | null;
  readonly command: NonNullable<ApplySection['command']>;
  /** What ended the command before its time. */
  readonly aborted: string | null;
  /** Number of the last statement of earlier attempts; 0 where there was none. */
  readonly earlier: number;
}

type Section = Pick<
  ApplySection,
  | 'outcome'
  | 'reasons'
  | 'statements'
  | 'transactions'
  | 'during'
  | 'schemaEqual'
  | 'fingerprints'
  | 'differences'
  | 'leftovers'
  | 'comparedTimes'
  | 'committed'
  | 'rolledBack'
  | 'wayBack'
  | 'bookkeeping'
>;

export interface InspectedOutcome {
  readonly section: Section;
  readonly caveats: Caveat[];
  /** For deciding whether the command may be run again. */
  readonly evidence: RetryEvidence;
}

/** What the target is now. Never throws: whatever cannot be found out is told as such. */
export async function inspectOutcome(parts: OutcomeParts): Promise<InspectedOutcome> {
  const { wire, transactions, schema, fingerprint, rehearsed, rehearsedSchema, command, aborted, earlier } =
    parts;
  const caveats: Caveat[] = [];
  const problems: string[] = [];
  const reach = await reachAgain(parts);
  const session = 'session' in reach ? reach.session : null;
  if ('failed' in reach) problems.push(reach.failed);
  const attempt = async <T, U>(
    from: Session | null,
    read: (session: Session) => Promise<T>,
    otherwise: U,
  ): Promise<T | U> => {
    if (from === null) return otherwise;
    try {
      return await read(from);
    } catch (error) {
      problems.push(messageOf(error));
      return otherwise;
    }
  };

  const stillRunning = await attempt(session, (open) => sessionsLeft(open, transactions.pids), 0);
  const moved = await attempt(
    session,
    async (open) => movedBetween(parts.place, await readServerIdentity(open)) ?? null,
    null,
  );
  const names = await attempt(session, (open) => relationNames(open, wire.lockedRelations()), new Map());
  const seen = await wire.statements(names, null);
  caveats.push(...seen.caveats);
  const home = moved === null ? session : null;
  const fates =
    (await attempt(home, (open) => transactions.fates(open), null)) ?? (await transactions.fates(null));
  const effects =
    (await attempt(session, (open) => effectsOf(seen, fates, open), null)) ??
    (await effectsOf(seen, fates, null));
  const compared = await attempt(session, () => schema.after({ inUse: true }), null);
  caveats.push(...(compared?.caveats ?? []));
  await session?.close();

  const found = compared === null ? null : schemaWithoutSecrets(compared.section);
  const against = found && rehearsedSchema && compareSchemas(rehearsedSchema, found);
  const expected = new Set(rehearsedSchema?.leftovers.map(({ kind, object }) => `${kind} ${object}`));
  const left = (found?.leftovers ?? []).filter(({ preexisting }) => !preexisting);
  const ended: Ended = {
    command,
    reached: wire.reached(),
    schemaChanged: found && found.after !== fingerprint,
    schemaEqual: against?.equal ?? null,
    differences: against?.differences ?? [],
    committed: effects.committed,
    leftovers: left.filter(({ kind, object }) => !expected.has(`${kind} ${object}`)),
    stillRunning,
    aborted,
    moved,
    unreadable: problems[0] ?? null,
  };
  const { transactions: told } = effects;
  const during = wire.happened();
  const decided = decideOutcome(ended);
  const transactionOf = new Map(seen.statements.map(({ index, transaction }) => [index, transaction]));
  const rehearsedTexts = rehearsed.statements.map(({ sql }) => sql);
  const { statements } = seen;
  return {
    section: {
      ...decided,
      statements,
      transactions: told,
      during,
      schemaEqual: against?.equal ?? null,
      fingerprints: { before: fingerprint, after: found?.after ?? null },
      differences: against?.differences ?? [],
      leftovers: left.map(({ kind, object }) => ({ kind, object })),
      comparedTimes: compareTimes(
        rehearsed,
        statements.filter(({ index }) => index > earlier),
      ),
      committed: shownAs(statements, effects.committed),
      rolledBack: shownAs(statements, effects.rolledBack),
      wayBack: wayBack(found, against?.equal ? rehearsedSchema : null),
      bookkeeping:
        decided.outcome === 'partly'
          ? await bookkeepingOf(effects.committed, transactionOf, rehearsedTexts)
          : null,
    },
    caveats: caveats.map((caveat) => ({ ...caveat, path: `apply.${caveat.path}` })),
    evidence: { ended, statements: seen.statements, transactions: told, during },
  };
}

/** The rehearsal could take renames back, and so knows a way where the target's own comparison has none. */
function wayBack(found: SchemaSection | null, rehearsed: SchemaSection | null): string | null {
  if (found === null || found.before === found.after) return null;
  return found.rollbackSql ?? rehearsed?.rollbackSql ?? null;
}

function shownAs(
  statements: readonly StatementSection[],
  effects: ApplySection['committed'],
): ApplySection['committed'] {
  const sql = new Map(statements.map((each) => [each.index, each.sql]));
  return effects.map((effect) => ({ ...effect, sql: sql.get(effect.statement) ?? effect.sql }));
}

/** For a server that is being started again. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 250;

async function reachAgain({
  target,
  run,
  audit,
}: OutcomeParts): Promise<{ session: Session } | { failed: string }> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return {
        session: await openSession(target.settings, { purpose: 'after', run, audit, readOnly: true }),
      };
    } catch (error) {
      const mayPass = error instanceof SafemigrateError && ['CONNECTION', 'LOST'].includes(error.code);
      if (!mayPass || performance.now() > deadline) return { failed: messageOf(error) };
      await delay(PAUSE_MS);
    }
  }
}

// What others may not see of a session is null.
const LEFT = `
SELECT pg_catalog.count(*)::pg_catalog.int4 AS count FROM pg_catalog.pg_stat_activity
 WHERE pid = ANY ($1::pg_catalog.int4[]) AND (backend_start IS NULL OR backend_start < $2::pg_catalog.timestamptz)`;
const NOW = 'SELECT pg_catalog.clock_timestamp()::pg_catalog.text AS now';
const LEAVING_MS = 5_000;

/** How many of the command's sessions do not go: a backend whose client is gone works on to the end of its statement. */
async function sessionsLeft(session: Session, pids: readonly number[]): Promise<number> {
  if (pids.length === 0) return 0;
  const [row] = await session.query<{ now: string }>(NOW);
  const deadline = performance.now() + LEAVING_MS;
  for (;;) {
    const [left] = await session.query<{ count: number }>(LEFT, [pids, row?.now]);
    if (!left?.count || performance.now() > deadline) return left?.count ?? 0;
    await delay(PAUSE_MS / 10);
  }
}
