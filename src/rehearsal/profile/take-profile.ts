import { readDiskSpace } from '../../database/data-folders.ts';
import { visitTarget } from '../../database/inspect.ts';
import type { Located } from '../../database/locate.ts';
import { readAccess, readPlannerStatistics, readRelationSizes } from '../../database/read-for-profile.ts';
import { readTraffic } from '../../database/read-traffic.ts';
import { LOCKING_SETTINGS, type TargetTraffic, trafficBetween } from '../../database/traffic.ts';
import { formatDuration, plural } from '../../format.ts';
import { profileRates } from '../../hazards/rates.ts';
import { recordShapes, shapesForProfile } from '../../load/record-shapes.ts';
import { isUnmeasured, measuredOrReason } from '../../measured.ts';
import type { Profile, ProfiledRelation } from '../../model/profile-model.ts';
import { PLANNER_SETTINGS } from '../../observe/checks/production-plans.ts';
import { readStatStatements } from '../../observe/checks/query-source.ts';
import { toolVersion } from '../../package.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { literalFree } from '../../postgres/sql/literal-free.ts';

/** A profile without a signature. */
export type UnsealedProfile = Omit<Profile, 'seal'>;

const STATEMENT_TIMEOUT_MS = 10_000;
const LOCK_TIMEOUT_MS = 500;

/** Settings that decide how long DDL takes, who waits and which plan is made; no other, because a setting may hold a secret. */
const SETTINGS = [
  ...['autovacuum', 'block_size', 'checkpoint_timeout', 'deadlock_timeout', 'default_statistics_target'],
  ...['default_toast_compression', 'full_page_writes', 'hot_standby_feedback'],
  ...['idle_in_transaction_session_timeout', 'lock_timeout', 'maintenance_work_mem'],
  ...['max_locks_per_transaction', 'max_parallel_maintenance_workers', ...LOCKING_SETTINGS],
  ...[
    'max_standby_streaming_delay',
    'max_wal_size',
    'shared_buffers',
    'statement_timeout',
    'synchronous_commit',
  ],
  ...['wal_compression', 'wal_level', ...PLANNER_SETTINGS],
];

const SETTINGS_SQL =
  'SELECT name, reset_val AS setting, unit FROM pg_settings WHERE name = ANY ($1::text[]) ORDER BY name';

/**
 * Reads a production database's sizes, rates and statements: catalogues and statistics alone, over read-only sessions, one after
 * the other, with short time limits. What the role may not read is listed in `unread`.
 * @param windowMs time between the two readings of the statistics; 0: their average alone.
 * @throws SafemigrateError `CONNECTION`, `SERVER`, `INTERRUPTED`; DatabaseError if the sizes cannot be read
 */
export async function takeProfile(
  located: Located,
  windowMs: number,
  audit: Audit,
  signal: AbortSignal,
): Promise<UnsealedProfile> {
  const unread: Profile['unread'] = [];
  const { target, session: visit } = await visitTarget(located.settings, located.source, { audit, signal });
  const open = () =>
    openSession(target.settings, {
      audit,
      signal,
      purpose: 'profile',
      readOnly: true,
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
    });
  await visit.close();
  const first = await withSession(open(), async (session) => ({
    freeBytes: (await readDiskSpace(session, target))?.freeBytes ?? null,
    statements: await readStatements(session, target.database.oid, unread),
    settings: await readSettings(session),
    sizes: await readRelationSizes(session),
    planner: await orUnread(unread, 'relations[].planner', () => readPlannerStatistics(session)),
    access: await orUnread(unread, 'access', () => readAccess(session)),
    traffic: await orUnread(unread, 'traffic', () => readTraffic(session)),
  }));
  const shapes =
    windowMs === 0
      ? null
      : await withSession(open(), (session) =>
          orUnread(unread, 'shapes', () => recordShapes(session, windowMs, signal)),
        );
  const second = await withSession(open(), (session) =>
    orUnread(unread, 'traffic', () => readTraffic(session)),
  );
  const traffic = first.traffic && second && trafficBetween(first.traffic, second);
  const { sizes, planner, freeBytes, statements, settings } = first;
  const note = (what: string, reason: string) => unread.push({ what, reason });
  if (sizes.isLate)
    note(
      'relations[].sizeBytes',
      'a relation was locked, so that sizes are those at the last VACUUM or ANALYZE',
    );
  if (planner && planner.hidden > 0)
    note(
      'relations[].planner',
      `the statistics of ${plural(planner.hidden, 'table')} are hidden from the role: pg_read_all_data would show them`,
    );
  if (freeBytes === null)
    note(
      'freeBytes',
      "it is visible only on the server's own machine, to a member of pg_read_all_settings and pg_read_server_files",
    );
  if (traffic && profileRates(traffic) === null)
    note(
      'traffic',
      `${formatDuration(traffic.sampledMs)} are too short for rates, and the server has not counted for a day: use --window`,
    );
  if (traffic && traffic.standbys === null)
    note('traffic.standbys', 'the role cannot see them: GRANT pg_read_all_stats to it');
  return {
    profile: 1,
    takenAt: new Date().toISOString(),
    tool: toolVersion(),
    server: { version: target.server.version, versionNum: target.server.versionNum },
    database: { name: target.database.name, sizeBytes: target.database.sizeBytes },
    ...withRates(
      sizes.relations.map((each) => ({ ...each, planner: planner?.relations.get(each.relation) })),
      traffic,
    ),
    access: first.access,
    shapes: shapes && shapesForProfile(shapes),
    statements,
    settings,
    freeBytes,
    unread,
  };
}

function withRates(
  relations: readonly Omit<ProfiledRelation, 'readsPerSecond' | 'insertsPerSecond' | 'writesPerSecond'>[],
  traffic: TargetTraffic | null,
): Pick<Profile, 'relations' | 'traffic'> {
  const rates = traffic && profileRates(traffic);
  return {
    relations: relations.map((each) => {
      const of = rates?.relations.get(each.relation);
      return {
        ...each,
        readsPerSecond: rounded(of?.readsPerSecond),
        insertsPerSecond: rounded(of?.insertsPerSecond),
        writesPerSecond: rounded(of?.writesPerSecond),
      };
    }),
    traffic: traffic &&
      rates && {
        sampledMs: traffic.sampledMs,
        averagedMs: rates.averagedMs,
        transactionsPerSecond: rounded(rates.transactionsPerSecond ?? undefined),
        sessions: traffic.sessions,
        standbys: traffic.standbys?.map((each) => ({ ...each })) ?? null,
        inactiveSlots: [...traffic.inactiveSlots],
        ...(traffic.lockWaits ? { lockWaits: traffic.lockWaits } : {}),
      },
  };
}

/** To four digits: more say nothing, and make the file twice as large. */
function rounded(perSecond: number | undefined): number | null {
  return perSecond === undefined ? null : Number(perSecond.toPrecision(4));
}

async function readStatements(
  session: Session,
  databaseOid: number,
  unread: Profile['unread'],
): Promise<Profile['statements']> {
  const read = await readStatStatements(session, databaseOid);
  if ('unreadable' in read) {
    unread.push({ what: 'statements', reason: read.unreadable });
    return null;
  }
  const texts: NonNullable<Profile['statements']>['texts'] = [];
  for (const { sql, calls, callsPerSecond } of read.queries) {
    const text = await literalFree(sql);
    if (text !== null) texts.push({ sql: text, calls, callsPerSecond: rounded(callsPerSecond ?? undefined) });
  }
  const { countedSince, utility, hidden, queries } = read;
  if (hidden > 0)
    unread.push({
      what: 'statements',
      reason: `the text of ${hidden} statements of other roles is hidden: pg_read_all_stats would show it`,
    });
  return { countedSince, texts, utility, hidden, withLiterals: queries.length - texts.length };
}

async function readSettings(session: Session): Promise<Profile['settings']> {
  const rows = await session.query<{ name: string; setting: string; unit: string | null }>(SETTINGS_SQL, [
    SETTINGS,
  ]);
  return Object.fromEntries(
    rows.map(({ name, setting, unit }) => [name, unit === null ? setting : `${setting} ${unit}`]),
  );
}

/** Reads a part of the profile; if that fails, the profile is still worth having, and `unread` gives the reason. */
async function orUnread<T>(
  unread: Profile['unread'],
  what: string,
  read: () => Promise<T>,
): Promise<T | null> {
  const result = await measuredOrReason(read);
  if (!isUnmeasured(result)) return result;
  unread.push({ what, reason: result.unmeasured });
  return null;
}
