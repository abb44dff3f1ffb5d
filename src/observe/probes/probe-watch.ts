import { type ClonePlace, inClone } from '../../clone/own-sessions.ts';
import { plural } from '../../format.ts';
import { measured } from '../../measured.ts';
import type { ProbeDifference } from '../../model/probe-difference.ts';
import type { Caveat } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import type { ApplicationQuery } from '../checks/query-source.ts';
import { applicationInserts } from './application-inserts.ts';
import type { Probe } from './battery.ts';
import { differences, type ProbedChanges, sequencesBehind } from './probe-differences.ts';
import { type Doubt, readProbedRelations } from './probed-relations.ts';
import { readSequences, type SequenceState } from './sequence-probes.ts';
import { byKind, keepingSequences, probesOf, SAME_ROWS, type TriedProbes, tryProbes } from './try-probes.ts';

/** Results of the probes before the command; null: they could not be tried. */
export interface ProbesBefore {
  readonly tried: TriedProbes | null;
  readonly sequences: readonly SequenceState[];
  readonly caveats: readonly Caveat[];
}

/** Time for all probes, before and after the command together. */
const BUDGET_MS = 5_000;
const BUDGET_SHARE = 0.05;
/** Longer than after it, when it is known which relations matter most. */
const BEFORE_MS = 3_000;

const ROLE = `select rolsuper as "isSuperuser", pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 150000 as flushes
from pg_catalog.pg_roles where rolname = current_user`;

/** Reads the catalogue of the clone for code that must not run because of us. */
export type ReadDoubt = (session: Session) => Promise<Doubt>;

/**
 * Tries reads and writes like those of an application on each table of the clone. Only dead rows stay in the clone.
 * @param queries those of the running application, as far as they are known.
 */
export async function probeBefore(
  place: ClonePlace,
  queries: readonly ApplicationQuery[],
  readDoubt: ReadDoubt,
): Promise<ProbesBefore> {
  const caveats: Caveat[] = [];
  const found = await measured(caveats, 'hazards', () =>
    probing(place, async (session, mayWrite) => {
      const inserts = await applicationInserts(queries);
      const relations = await readProbedRelations(session, await readDoubt(session), inserts);
      const sequences = await readSequences(session);
      const probes = relations.flatMap(probesOf).filter(({ kind }) => mayWrite || !kind.writes);
      return {
        tried: await keepingSequences(session, () => tryProbes(session, byKind(probes), BEFORE_MS)),
        sequences,
      };
    }),
  );
  return { tried: found?.tried ?? null, sequences: found?.sequences ?? [], caveats };
}

/**
 * Tries the same again, first on the relations that the command changed, and compares.
 * @param options.commandMs the time of the command, which bounds that of the probes.
 */
export async function probeAfter(
  place: ClonePlace,
  before: ProbesBefore,
  changes: ProbedChanges,
  { commandMs, readDoubt }: { commandMs: number; readDoubt: ReadDoubt },
): Promise<{ readonly probes: ProbeDifference[]; readonly caveats: readonly Caveat[] }> {
  const { tried, sequences } = before;
  const caveats = [...before.caveats];
  if (!tried) return { probes: [], caveats };
  const budgetMs = Math.max(BUDGET_MS, commandMs * BUDGET_SHARE) - BEFORE_MS;
  const probes = changedFirst(
    tried.tried.map(({ probe }) => probe),
    changes,
  );
  const found = await measured(caveats, 'hazards', () =>
    probing(place, async (session) => {
      const now = await readSequences(session);
      const harmless = stillHarmless(probes, await readDoubt(session));
      const again = await keepingSequences(session, () => tryProbes(session, harmless, budgetMs));
      const found = [...sequencesBehind(sequences, now), ...differences(tried.tried, again.tried, changes)];
      return { found, untried: tried.untried + again.untried };
    }),
  );
  if (found && found.untried > 0)
    caveats.push({
      path: 'hazards',
      kind: 'unmeasured',
      reason: `${plural(found.untried, 'probe')} of reads and writes like those of an application could not be tried in ${BUDGET_MS / 1000} s`,
    });
  return { probes: found?.found ?? [], caveats };
}

/**
 * Opens a session with the search path of the role. Rows that it writes must not count as the command's: the statistics of the tables
 * leave out a superuser's session; those of another one arrive before the next statement, but for PostgreSQL 14, where it may not write.
 */
function probing<T>(place: ClonePlace, use: (session: Session, mayWrite: boolean) => Promise<T>): Promise<T> {
  return inClone(
    place,
    async (session) => {
      const [role] = await session.query<{ isSuperuser: boolean; flushes: boolean }>(ROLE);
      if (role?.isSuperuser) await session.query('SET track_counts = off');
      await session.query('RESET search_path');
      for (const setting of SAME_ROWS) await session.query(`SET ${setting}`);
      const used = await use(session, role?.isSuperuser === true || role?.flushes === true);
      if (role?.flushes) await session.query('select pg_catalog.pg_stat_force_next_flush()');
      return used;
    },
    { purpose: 'probes', readOnly: false, pipelined: true },
  );
}

/** Leaves out the probes that run code which the command has made. */
function stillHarmless(probes: readonly Probe[], doubt: Doubt): Probe[] {
  return probes.filter(({ kind, relation: { relation, reads, referencedBy } }) => {
    const reached = [relation, ...reads];
    const written = kind.writes ? [...reached, ...referencedBy.map(({ other }) => other)] : [];
    return (
      reached.every((each) => doubt(each, 'use') === undefined) &&
      written.every((each) => doubt(each, 'write') === undefined)
    );
  });
}

function changedFirst(probes: readonly Probe[], { schema, data }: ProbedChanges): Probe[] {
  const changed = [
    ...schema.changes.map(({ object }) => object),
    ...(data?.written ?? []).map(({ relation }) => relation),
  ];
  const isChanged = ({ relation: { relation, reads } }: Probe) =>
    [relation, ...reads].some((name) =>
      changed.some((object) => object === name || object.startsWith(`${name}.`)),
    );
  return [...byKind(probes.filter(isChanged)), ...byKind(probes.filter((probe) => !isChanged(probe)))];
}
