import type { Clone } from '../clone/method.ts';
import type { CatalogueFacts } from '../model/hazard-facts.ts';
import type { Caveat, DataSection, SchemaSection } from '../model/report.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName } from '../postgres/sql/quote.ts';
import type { Retyped } from '../schema/retyped.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import {
  type CatalogueBefore,
  catalogueFacts,
  readCatalogueBefore,
  readUnindexedForeignKeys,
} from './catalogue-facts.ts';
import { measured } from './measured.ts';
import { newAmong, type RelationNames, relationNames } from './relation-names.ts';
import { compareRelations, type RelationsData, readRelations, rowsGone } from './relations.ts';

export interface CloneObservations {
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  readonly sizeBytes: number | null;
  /** Of the relations that were asked for, dropped ones included where they hold rows. */
  readonly names: RelationNames;
  /** OIDs of those among them that the command made: nobody waits for their locks. */
  readonly made: ReadonlySet<number>;
  readonly catalogue: CatalogueFacts;
  readonly retyped: readonly Retyped[];
  readonly caveats: Caveat[];
}

interface Snapshot {
  readonly relations: RelationsData;
  readonly catalogue: CatalogueBefore;
  readonly walPosition: string;
}

/** What the clone held before the command, and what the command made of it. */
export interface CloneWatch {
  /**
   * Reads schema and data. Nothing of ours stays connected to the clone afterwards.
   * @param onIdle called when this thread has nothing left to do but wait.
   * @param inRoom begun when there is room for another connection. @returns what it resolves with.
   */
  before<T>(onIdle: () => Promise<unknown>, inRoom: () => Promise<T>): Promise<T>;
  /**
   * Compares. What could not be read is null, and the caveats say why; so is everything once the interrupt has come,
   * since whoever interrupts does not want to wait for it.
   * @param wanted OIDs of relations to be named.
   */
  after(wanted: Iterable<number>, options?: AfterOptions): Promise<CloneObservations>;
}

interface AfterOptions {
  readonly interrupt?: AbortSignal | undefined;
  /** Called when there is room for another connection: there is little left to be read, or nothing. */
  readonly onRead?: () => void;
  /** Called when all is read: then there is only the comparing left to do. */
  readonly onLeft?: () => void;
}

/** Of fewer relations one session reads the schema while another one reads the target already. */
const WORTH_HELP = 500;

const worthHelp = ({ relations }: RelationsData) => relations.size >= WORTH_HELP;

/** Three connections to a server are the most at any time, so the schema gets its second one when the data is read; if it is worth it. */
async function roomAfter(data: Promise<{ relations: RelationsData }>): Promise<void> {
  // A failure is told where the data is waited for.
  const read = await data.catch(() => undefined);
  if (!read || !worthHelp(read.relations)) await new Promise<never>(() => {});
}

const POSITION = 'SELECT pg_current_wal_insert_lsn()::text AS position';
const WAL_SINCE = 'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::int8 AS bytes';

/** While the command runs no session of ours sits in the clone, where it would be in the way. */
export function watchClone(
  clone: Clone,
  options: { run: RunId; schema: SchemaWatch; audit: Audit; signal: AbortSignal },
): CloneWatch {
  const { run, schema, audit, signal } = options;
  const { control } = clone.server;
  signal.addEventListener('abort', () => void schema.close(), { once: true });
  let first: Snapshot | undefined;

  const inClone = async <T>(read: (session: Session) => Promise<T>): Promise<T> => {
    const session = await openSession(clone.connect, {
      purpose: 'clone',
      run,
      audit,
      signal,
      readOnly: true,
    });
    try {
      return await read(session);
    } finally {
      await session.close();
    }
  };

  return {
    async before(onIdle, inRoom) {
      const data = inClone(async (session) => ({
        relations: await readRelations(session),
        catalogue: await readCatalogueBefore(session),
      }));
      const schemaRead = schema.before(clone.connect, { run, room: roomAfter(data) });
      const room = data.then(({ relations }) => (worthHelp(relations) ? schemaRead : undefined));
      const [read, filled] = await Promise.all([data, room.then(inRoom), schemaRead, data.then(onIdle)]);
      const [row] = await control.query<{ position: string }>(POSITION);
      first = { ...read, walPosition: row?.position ?? '0/0' };
      return filled;
    },
    async after(wanted, options = {}) {
      const { interrupt } = options;
      if (interrupt?.aborted) return notObserved();
      try {
        return await compare(wanted, options);
      } catch (error) {
        if (interrupt?.aborted) return notObserved();
        throw error;
      }
    },
  };

  /** Where the schema is small, the room for a second session that reads it is given to whoever waits for all to be read. */
  function readSchema({ relations }: Snapshot, data: Promise<unknown>, tell: AfterOptions) {
    // Whether the data could be read is told where it is waited for.
    const onRead = () => void data.then(tell.onRead, () => {});
    const onLeft = () => void data.then(tell.onLeft, () => {});
    if (worthHelp(relations)) return schema.after({ room: data, onRead, onLeft });
    onRead();
    return schema.after({ onLeft });
  }

  function notObserved(): CloneObservations {
    return {
      ...NOT_OBSERVED,
      names: new Map(first ? namesOf(first.relations) : []),
      catalogue: first
        ? { ...catalogueFacts(first.catalogue, first.relations, null), dropped: new Map() }
        : NOT_OBSERVED.catalogue,
    };
  }

  async function compare(wanted: Iterable<number>, tell: AfterOptions): Promise<CloneObservations> {
    const then = first;
    if (!then) throw new Error('the clone was not read before the command');
    const caveats: Caveat[] = [];
    const known = new Set(then.catalogue.relations.map(({ oid }) => Number(oid)));
    const [wal] = await control.query<{ bytes: string }>(WAL_SINCE, [then.walPosition]);
    const data = measured(caveats, 'data', () =>
      inClone(async (session) => ({
        relations: await readRelations(session, then.relations),
        names: await relationNames(session, wanted),
        made: await newAmong(session, wanted, (table) => known.has(table)),
        unindexedForeignKeys: await readUnindexedForeignKeys(session),
      })),
    );
    const bytes = Number(wal?.bytes ?? 0);
    // First of all, so that what waits for the data in there does not wait for what is made of it here.
    const schemaRead = measured(caveats, 'schema', () => readSchema(then, data, tell));
    // While the schema is being read: of 10,000 relations it takes a while.
    const worked = data.then((read) => ({
      relations: read?.relations ?? null,
      rows:
        read &&
        compareRelations(then.relations, read.relations, {
          bytes,
          shared: clone.isolation === 'same-cluster',
        }),
      names: new Map([...namesOf(then.relations), ...(read?.names ?? [])]),
      made: read?.made ?? new Set<number>(),
      catalogue: catalogueFacts(then.catalogue, then.relations, read),
    }));
    const [compared, { relations, rows, names, made, catalogue }] = await Promise.all([schemaRead, worked]);
    caveats.push(...(compared?.caveats ?? []), ...(rows?.caveats ?? []));
    return {
      schema: compared && withLostRows(compared.section, then.relations, relations),
      data: rows?.section ?? null,
      sizeBytes: relations?.databaseBytes ?? null,
      ...{ names, made },
      catalogue: { ...catalogue, dropped: compared?.dropped ?? new Map() },
      retyped: compared?.retyped ?? [],
      caveats,
    };
  }
}

function namesOf({ relations }: RelationsData): [number, string][] {
  return [...relations.values()].map(({ oid, schema, name }) => [oid, displayName(schema, name)]);
}

const NOT_OBSERVED: CloneObservations = {
  schema: null,
  data: null,
  sizeBytes: null,
  names: new Map(),
  made: new Set(),
  catalogue: {
    relations: new Map(),
    renamed: new Map(),
    checks: [],
    unindexedForeignKeys: new Map(),
    dropped: new Map(),
    lockTimeoutByDefault: false,
  },
  retyped: [],
  caveats: ['schema', 'data', 'clone.sizeBytes'].map((path) => ({
    path,
    kind: 'unmeasured',
    reason: 'the run was interrupted before it was read',
  })),
};

/** The way back restores structure; rows that the command deleted it cannot bring back. */
function withLostRows(
  section: SchemaSection,
  before: RelationsData,
  after: RelationsData | null,
): SchemaSection {
  if (!after) return section;
  return { ...section, rollbackLoses: [...section.rollbackLoses, ...rowsGone(before, after)] };
}
