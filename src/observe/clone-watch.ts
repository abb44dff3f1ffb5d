import type { Clone } from '../clone/method.ts';
import { forOwnSessions, inClone } from '../clone/own-sessions.ts';
import type { Target } from '../database/target.ts';
import { formatBytes } from '../format.ts';
import { measured } from '../measured.ts';
import { NO_EFFECTS } from '../model/effect-facts.ts';
import { type ActingObject, NO_DEFINITIONS, type OrphanFacts } from '../model/hazard-facts.ts';
import type { Caveat, SchemaSection } from '../model/report.ts';
import type { RunId } from '../ownership/run-id.ts';
import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { SessionOptions } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import {
  type CatalogueBefore,
  catalogueFacts,
  readCatalogueBefore,
  readUnindexedForeignKeys,
  tablesWithoutIdentity,
} from './catalogue-facts.ts';
import { type CloneObservations, NOT_OBSERVED, withEffects } from './clone-observations.ts';
import type { ParsedStatements } from './effects/already-there.ts';
import { readAskedEffects } from './effects/asked-effects.ts';
import { ofOwnDatabase } from './effects/changed-definitions.ts';
import { type MayRun, readFilteredWrites, type SentStatements } from './effects/filtered-writes.ts';
import { endPrepared, rolledBackCaveats } from './effects/left-prepared.ts';
import { type EffectsBefore, readEffects, readEffectsBefore } from './effects/read-effects.ts';
import { readWriteTrials, type WriteTrials } from './effects/write-trials.ts';
import { readProcedures } from './locks-in-bodies.ts';
import { readOrphans } from './orphans.ts';
import { keepingSequences } from './probes/try-probes.ts';
import { allRelations, givenRelations, newAmong, type RelationTree } from './relation-names.ts';
import {
  compareRelations,
  type RelationsData,
  readRelations,
  rowsGone,
  withRowsBefore,
} from './relations.ts';
import { currentCounts } from './written-rows.ts';

interface CloneWatchOptions {
  readonly target: Target;
  readonly run: RunId;
  readonly schema: SchemaWatch;
  readonly audit: Audit;
  readonly signal: AbortSignal;
}

interface Asked {
  readonly procedures: boolean;
  readonly rolledBack: boolean;
  readonly unseen: (session: Session) => Promise<ActingObject[]>;
}

/** The data before the command. The thread behind SchemaWatch keeps the schema. */
interface DataBefore {
  readonly relations: RelationsData;
  readonly tree: RelationTree;
  readonly catalogue: CatalogueBefore;
  readonly effects: EffectsBefore;
  readonly walPosition: string;
  /** Id of the next transaction, as rows have it. */
  readonly nextXid: number;
  readonly bytesRead: number;
  readonly hasUserCode: boolean;
}

/** For counting the rows of one foreign key. */
const COUNT_TIMEOUT_MS = 30_000;

const POSITION = `SELECT pg_current_wal_insert_lsn()::text AS position,
  (pg_snapshot_xmax(pg_current_snapshot())::text::numeric % 4294967296)::float8 AS xid`;
// A clone begins with empty shared buffers.
const BYTES_READ = `SELECT blks_read::float8 * current_setting('block_size')::int AS bytes
  FROM pg_stat_database WHERE datname = $1`;
/** Below this, reading takes no time that anybody notices. */
const COLD_FROM_BYTES = 64 * 2 ** 20;
const HAS_USER_CODE = `
SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
  WHERE p.oid >= ${FIRST_USER_OID} AND l.lanname NOT IN ('internal', 'c')) AS has`;
const WAL_SINCE = 'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::int8 AS bytes';

/** Reads what the clone holds before the command, and what the command made of it. */
export class CloneWatch {
  readonly #clone: Clone;
  readonly #options: CloneWatchOptions;
  #before: DataBefore | undefined;

  constructor(clone: Clone, options: CloneWatchOptions) {
    this.#clone = clone;
    this.#options = options;
    options.signal.addEventListener('abort', () => void options.schema.close(), { once: true });
  }

  /**
   * Reads data and schema, and over the same session what else is wanted. No session of ours stays in the clone afterwards,
   * where it would be in the command's way.
   */
  async before<T>(also: (session: Session) => Promise<T>): Promise<T> {
    const { schema, run, target } = this.#options;
    // At once: they ask over sessions of their own, and the schema is read by another thread.
    const [{ more, ...data }] = await Promise.all([
      this.#inClone(async (session) => ({
        relations: await readRelations(session),
        tree: await allRelations(session),
        catalogue: await readCatalogueBefore(session),
        effects: await readEffectsBefore(session),
        hasUserCode: (await session.query<{ has: boolean }>(HAS_USER_CODE))[0]?.has ?? true,
        more: await also(session),
      })),
      schema.before(forOwnSessions(this.#clone, target), { run }),
    ]);
    const [row] = await this.#clone.server.control.query<{ position: string; xid: number }>(POSITION);
    this.#before = {
      ...data,
      walPosition: row?.position ?? '0/0',
      nextXid: row?.xid ?? 0,
      bytesRead: await this.#bytesRead(),
    };
    return more;
  }

  /**
   * Reads data and schema again, and compares. What could not be read is null, and the caveats give the reason. So is everything
   * once the interrupt has come, since the user who interrupts does not want to wait.
   * @param wanted OIDs of relations whose names are needed.
   * @param options.procedures the definitions of procedures are needed.
   * @param options.rolledBack a part of the command failed or was rolled back.
   * @param options.unseen finds what acts on the target's server and was never seen.
   */
  async after(
    wanted: Iterable<number>,
    { interrupt, ...options }: { interrupt?: AbortSignal | undefined } & Partial<Asked> = {},
  ): Promise<CloneObservations> {
    const before = this.#before;
    if (interrupt?.aborted) return notObserved(before);
    if (!before) throw new Error('the clone was not read before the command');
    try {
      const asked = { procedures: false, rolledBack: true, unseen: async () => [], ...options };
      return await this.#compare(before, wanted, asked);
    } catch (error) {
      if (interrupt?.aborted) return notObserved(before);
      throw error;
    }
  }

  /** Counts the rows without a parent, of foreign keys from and to these tables. */
  orphans(tables: readonly string[]): Promise<OrphanFacts[]> {
    return this.#inClone((session) => readOrphans(session, tables), {
      statementTimeoutMs: COUNT_TIMEOUT_MS,
    });
  }

  /** Adds facts that the statements of the command ask for. */
  async withAskedEffects(
    observed: CloneObservations,
    sent: ParsedStatements,
    readMayRun: (session: Session) => Promise<MayRun>,
  ): Promise<CloneObservations> {
    const caveats: Caveat[] = [];
    const { searchPath } = observed.catalogue;
    const context = { searchPath, retyped: observed.retyped, readMayRun };
    const open = <T>(use: (session: Session) => Promise<T>) => this.#inClone(use);
    const effects = await readAskedEffects(open, sent, context, caveats);
    return withEffects(observed, effects, caveats);
  }

  /** Tries the writes of the command again, in transactions that are rolled back. */
  writeTrials(
    sent: SentStatements,
    readMayRun: (session: Session) => Promise<MayRun>,
    caveats: Caveat[],
  ): Promise<WriteTrials> {
    const since = this.#before?.nextXid ?? 0;
    return this.#inClone(
      async (session) => {
        const mayRun = await readMayRun(session);
        return keepingSequences(session, async () => ({
          filteredWrites: await readFilteredWrites(session, sent, mayRun),
          ...(await readWriteTrials(session, sent, { mayRun, since }, caveats)),
        }));
      },
      { readOnly: false },
    );
  }

  async #compare(before: DataBefore, wanted: Iterable<number>, asked: Asked): Promise<CloneObservations> {
    const caveats: Caveat[] = [];
    const { control } = this.#clone.server;
    const bytesRead = (await this.#bytesRead()) - before.bytesRead;
    if (bytesRead >= COLD_FROM_BYTES) caveats.push(coldPages(bytesRead));
    const [wal] = await control.query<{ bytes: string }>(WAL_SINCE, [before.walPosition]);
    const open = <T>(use: (session: Session) => Promise<T>) => this.#inClone(use);
    const leftPrepared =
      (await measured(caveats, 'hazards', () => endPrepared(control, this.#clone.database, open))) ?? [];
    caveats.push(...rolledBackCaveats(leftPrepared));
    const { data, schema, effects, procedures, actsOnServer } = await this.#readAgain(
      before,
      wanted,
      asked,
      caveats,
    );
    const relations = data?.relations ?? null;
    const isShared = this.#clone.isolation === 'same-cluster';
    const then = relations ? withRowsBefore(before.relations, relations) : before.relations;
    const wrote = { isShared, maybeRolledBack: asked.rolledBack };
    const rows = relations && compareRelations(then, relations, Number(wal?.bytes ?? 0), wrote);
    const { redefined } = { ...NO_EFFECTS, ...effects };
    caveats.push(...(schema?.caveats ?? []), ...(rows?.caveats ?? []));
    return {
      schema: schema && withLostRows(schema.section, then, relations),
      data: rows?.section ?? null,
      sizeBytes: relations?.databaseBytes ?? null,
      tree: new Map([...before.tree, ...(data?.tree ?? [])]),
      made: data?.made ?? new Set<number>(),
      catalogue: {
        ...catalogueFacts(before.catalogue, then, data),
        dropped: schema?.dropped ?? new Map(),
        definitions: schema?.definitions ?? NO_DEFINITIONS,
        effects: { ...NO_EFFECTS, ...effects, redefined: isShared ? ofOwnDatabase(redefined) : redefined },
        actsOnServer,
        leftPrepared,
        orphans: [],
      },
      retyped: schema?.retyped ?? [],
      procedures,
      hasUserCode: before.hasUserCode,
      caveats,
    };
  }

  /** Bytes that the clone's sessions have not found in shared buffers, as far as its statistics have them. */
  async #bytesRead(): Promise<number> {
    const { control } = this.#clone.server;
    const [row] = await control.query<{ bytes: number }>(BYTES_READ, [this.#clone.database]);
    return row?.bytes ?? 0;
  }

  async #readAgain(before: DataBefore, wanted: Iterable<number>, asked: Asked, caveats: Caveat[]) {
    const unseen = async (open: () => Promise<ActingObject[]>) =>
      (await measured(caveats, 'hazards', open)) ?? [];
    // One session for all of it: to open another one takes longer than what is asked over it.
    const read = await measured(caveats, 'data', () =>
      this.#inClone(async (session) => {
        const readData = () => this.#readDataAgain(session, before, wanted, caveats);
        const [{ data, actsOnServer }, schema] = await Promise.all([
          (async () => ({
            data: await measured(caveats, 'data', readData),
            actsOnServer: await unseen(() => asked.unseen(session)),
          }))(),
          measured(caveats, 'schema', () => this.#options.schema.after()),
        ]);
        const effects =
          schema && (await measured(caveats, 'hazards', () => readEffects(session, schema, before.effects)));
        const procedures =
          asked.procedures &&
          before.hasUserCode &&
          (await measured(caveats, 'statements[].locks', () => readProcedures(session)));
        return { data, schema, effects, actsOnServer, procedures: procedures || [] };
      }),
    );
    if (read) return read;
    // What kept this session out may let that of the schema in: they are of the same role, but time has passed.
    const schema = await measured(caveats, 'schema', () => this.#options.schema.after());
    const actsOnServer = await unseen(() => this.#inClone(asked.unseen));
    return { data: null, schema, effects: null, actsOnServer, procedures: [] };
  }

  async #readDataAgain(session: Session, before: DataBefore, wanted: Iterable<number>, caveats: Caveat[]) {
    const late = await currentCounts(session);
    caveats.push(...late);
    const tree = await givenRelations(session, wanted);
    return {
      relations: await readRelations(session, before.relations, late.length === 0),
      tree,
      made: newAmong(tree, before.tree),
      unindexedForeignKeys: await readUnindexedForeignKeys(session),
      withoutIdentity: await tablesWithoutIdentity(session),
    };
  }

  #inClone<T>(use: (session: Session) => Promise<T>, more: Partial<SessionOptions> = {}): Promise<T> {
    return inClone({ clone: this.#clone, context: this.#options }, use, { pipelined: true, ...more });
  }
}

function coldPages(bytes: number): Caveat {
  return {
    path: 'statements[].durationMs',
    kind: 'estimate',
    reason: `the command read ${formatBytes(bytes)} from disk, because the clone starts with a cold cache: with a warm cache, statements run faster and hold locks for less time`,
  };
}

function notObserved(before: DataBefore | undefined): CloneObservations {
  if (!before) return NOT_OBSERVED;
  return {
    ...NOT_OBSERVED,
    tree: before.tree,
    catalogue: {
      ...catalogueFacts(before.catalogue, before.relations, null),
      dropped: new Map(),
      definitions: NO_DEFINITIONS,
      effects: NO_EFFECTS,
      actsOnServer: [],
      leftPrepared: [],
      orphans: [],
    },
  };
}

/** The rollback SQL restores structure; it cannot bring back rows that the command deleted. */
function withLostRows(
  section: SchemaSection,
  before: RelationsData,
  after: RelationsData | null,
): SchemaSection {
  if (!after) return section;
  return { ...section, rollbackLoses: [...section.rollbackLoses, ...rowsGone(before, after)] };
}
