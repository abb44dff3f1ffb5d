import { NO_EFFECTS } from '../../src/model/effect-facts.ts';
import { type HazardFacts, NO_DEFINITIONS, type RelationFacts } from '../../src/model/hazard-facts.ts';
import type { SchemaSection, StatementSection } from '../../src/model/report.ts';
import type { Action } from '../../src/model/statement-actions.ts';
import { blocks, type LockMode } from '../../src/postgres/lock-modes.ts';

/** Facts for hazards, made by hand. */
export function facts(
  given: Partial<Omit<HazardFacts, 'catalogue'>> & { catalogue?: Partial<HazardFacts['catalogue']> },
): HazardFacts {
  const { catalogue, ...others } = given;
  return {
    command: { exitCode: 0 },
    statements: [],
    transactions: [],
    schema: null,
    data: null,
    parsed: new Map(),
    sessionsWithLockTimeout: new Set(),
    sessionsOfPsql: new Set(),
    rerun: null,
    traffic: null,
    queries: null,
    catalogue: {
      relations: new Map(),
      renamed: new Map(),
      checks: [],
      unindexedForeignKeys: new Map(),
      dropped: new Map(),
      definitions: NO_DEFINITIONS,
      effects: NO_EFFECTS,
      searchPath: ['public'],
      lockTimeoutByDefault: true,
      actsOnServer: [],
      leftPrepared: [],
      identityLost: [],
      orphans: [],
      ...catalogue,
    },
    ...others,
  };
}

export function relation(
  sizeBytes: number,
  rows: number,
  kind: RelationFacts['kind'] = 'table',
): RelationFacts {
  return { kind, sizeBytes, rows, exact: true };
}

export function statement(
  index: number,
  given: Partial<Omit<StatementSection, 'locks'>> & { locks?: [string, LockMode, number][] } = {},
): StatementSection {
  const { locks = [], ...others } = given;
  return {
    index,
    session: 1,
    sql: '',
    tag: null,
    startedAt: '2026-03-14T02:11:09.500Z',
    durationMs: 5,
    rows: null,
    transaction: index,
    explicit: false,
    exactness: 'exact',
    error: null,
    rewrote: [],
    walBytes: null,
    locks: locks.map(([relation, mode, heldMs]) => ({
      relation,
      mode,
      acquiredBy: others.tag ?? '',
      heldMs,
      blocks: blocks(mode),
    })),
    ...others,
  };
}

/** A schema that is as before, but for what is given. */
export function schema(given: Partial<SchemaSection> = {}): SchemaSection {
  return {
    before: 'a',
    after: 'b',
    changes: [],
    renames: [],
    unmodeled: [],
    rollbackSql: null,
    rollbackLoses: [],
    leftovers: [],
    ...given,
  };
}

type StatementError = NonNullable<StatementSection['error']>;

/** What a server says of a statement that fails: only what is given. */
export function serverError(sqlstate: string, given: Partial<StatementError> = {}): StatementError {
  return {
    sqlstate,
    message: 'refused',
    detail: null,
    hint: null,
    position: null,
    where: null,
    internalQuery: null,
    schema: null,
    table: null,
    column: null,
    dataType: null,
    constraint: null,
    ...given,
  };
}

/** What the parser says, by the statements' indexes. */
export function asking(actions: Record<number, Action | Action[]>): HazardFacts['parsed'] {
  return new Map(
    Object.entries(actions).map(([index, action]) => [
      Number(index),
      { actions: [action].flat(), effect: 'unknown' },
    ]),
  );
}
