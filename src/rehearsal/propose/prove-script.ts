import { messageOf } from '../../errors.ts';
import { findHazards } from '../../hazards/catalogue.ts';
import { atProductionSize } from '../../hazards/production/at-production-size.ts';
import type { HazardFacts } from '../../model/hazard-facts.ts';
import type { Profile } from '../../model/profile-model.ts';
import type { Hazard } from '../../model/report.ts';
import {
  type Contents,
  type ContentsComparison,
  compareContents,
  compareEffects,
  type Effect,
} from '../../observe/checks/contents.ts';
import { differencesOfSchemas } from '../../observe/checks/schema-again.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { NO_CONTACTS } from '../../proof/new-sessions.ts';
import { isScripted, LOCKS_FIRST } from '../../propose/scripted-hazards.ts';
import { contentsOf } from '../clone-again.ts';
import type { AfterCommand } from '../extra-run.ts';
import type { CloneSetup, OpenWire } from '../run-on-clone.ts';

// Whether the script does what the command did, without the hazards that it is to take away.

/** One run, and the clone that it ran on. */
export interface Run extends Pick<AfterCommand, 'observed' | 'seen'> {
  readonly setup: CloneSetup;
  readonly exitCode: number | null;
  /** Contents of the tables before it; null if that was not read. */
  readonly before: Contents | null;
}

const ALL = { all: true } as const;

/** The facts of one run that hazards of its statements are found in, at the sizes of a profile if there is one. */
export function hazardFactsOf(
  { observed, seen, exitCode }: Omit<Run, 'setup' | 'before'>,
  profile: Profile | null = null,
): HazardFacts {
  const { schema, data, catalogue } = observed;
  const facts = {
    command: { exitCode, durationMs: 0 },
    schema,
    data,
    catalogue,
    statements: seen.statements,
    transactions: seen.transactions,
    parsed: seen.parsed,
    sessionsWithLockTimeout: seen.sessionsWithLockTimeout,
    sessionsOfPsql: seen.sessionsOfPsql,
    // Rates make a hazard more or less severe. Which there are, follows from the rest.
    queries: null,
    rerun: null,
  };
  if (profile === null) return { ...facts, traffic: null };
  const unmeasured = {
    traffic: { unmeasured: '' },
    rewrittenBytes: null,
    diskSpace: null,
    unsharedBytes: null,
  };
  const sized = atProductionSize({ ...facts, ...unmeasured, targetWasEmptied: false }, profile);
  return { ...sized.judged, traffic: null };
}

/**
 * Compares what both left.
 * @param taken the hazards that the script is to take away.
 * @returns the reasons why it is no proof, none if it is one.
 */
export async function prove(
  original: Run,
  safer: Run,
  found: readonly Hazard[],
  taken: readonly Hazard[],
  profile: Profile | null,
) {
  const { version } = original.setup.context.target.server;
  const rows = await compareRows(original, safer);
  const counts = rows.dataDifferences.filter(({ bookkeeping }) => !bookkeeping);
  const { reasons, tolerated } = await tolerable(original, safer, counts);
  const own = rows.dataDifferences.filter(({ bookkeeping }) => bookkeeping);
  return {
    reasons: [
      ...schemaReasons(original, safer),
      ...reasons,
      ...hazardReasons(findHazards(hazardFactsOf(safer, profile)), found, taken, version),
    ],
    tolerated: [...tolerated, ...own.map(({ relation, what }) => `${relation}: ${what}`)],
    tablesCompared: rows.tablesCompared,
    tablesSkipped: rows.tablesSkipped,
  };
}

function schemaReasons({ observed: first }: Run, { observed: other }: Run): string[] {
  if (!first.schema || !other.schema) return ['the schemas could not be compared'];
  const { differences } = differencesOfSchemas(first.schema, other.schema);
  return differences.map(({ what }) => `it leaves another schema: ${what}`);
}

async function compareRows(original: Run, safer: Run): Promise<ContentsComparison> {
  if (!original.before || !safer.before) throw new Error('the tables were not read before the first run');
  const one: Effect = { before: original.before, after: await contentsOf(original.setup, ALL) };
  return compareEffects(one, { before: safer.before, after: await contentsOf(safer.setup, ALL) });
}

/** Times and UUIDs differ between any two runs. */
async function tolerable(
  original: Run,
  safer: Run,
  differences: ContentsComparison['dataDifferences'],
): Promise<{ reasons: string[]; tolerated: string[] }> {
  if (differences.length === 0) return { reasons: [], tolerated: [] };
  const left = compareContents(
    await contentsOf(original.setup, { moments: 'counted', all: true }),
    await contentsOf(safer.setup, { moments: 'counted', all: true }),
  ).dataDifferences;
  const remains = ({ relation }: { relation: string }) => left.some((each) => each.relation === relation);
  const words = (list: typeof differences) => list.map(({ relation, what }) => `${relation}: ${what}`);
  return {
    reasons: words(differences.filter(remains)).map((what) => `it leaves other rows: ${what}`),
    tolerated: words(differences.filter((each) => !remains(each))),
  };
}

function hazardReasons(
  now: readonly Hazard[],
  found: readonly Hazard[],
  taken: readonly Hazard[],
  version: string,
): string[] {
  const isIn = (list: readonly Hazard[], { code, relation }: Hazard) =>
    list.some((each) => each.code === code && each.relation === relation);
  const kept = now.filter((hazard) => isIn(taken, hazard));
  // Another column has the name: that the schemas are equal proves that none is missing.
  const isReplaced = ({ code }: Hazard) =>
    code === 'COLUMN_DROPPED' && taken.some((each) => each.code === 'TYPE_CHANGE_REWRITES');
  // The transaction took the same locks, one after the other.
  const isLockFirst = ({ code }: Hazard) =>
    code === 'LOCK_TABLE' && taken.some((each) => each.code === LOCKS_FIRST.code);
  const isNew = (hazard: Hazard) =>
    !found.some(({ code }) => code === hazard.code) && !isReplaced(hazard) && !isLockFirst(hazard);
  const added = now.filter(
    (hazard) => isNew(hazard) && (hazard.severity !== 'notice' || isScripted(hazard.code, { version })),
  );
  return [
    ...kept.map(({ code, message }) => `it still has ${code}: ${message}`),
    ...added.map(({ code, message }) => `it has a hazard of its own, ${code}: ${message}`),
  ];
}

/** Gives a session the settings that one of psql begins with. */
const OWN_SETTINGS = 'RESET ALL';

/**
 * Runs statements in one session through the proxy, which it closes, as a command is run; the first failure ends it.
 * @param after is given the session after each statement, by its place.
 */
export async function runScript(
  { life: { stop }, context }: CloneSetup,
  statements: readonly string[],
  open: OpenWire,
  after?: (session: Session, at: number) => Promise<void>,
) {
  const { wire, accessGate } = open;
  const [route] = wire.routes;
  if (!route) throw new Error('there is no route into the clone');
  const { run, audit } = context;
  const session = await openSession(route.entry, {
    run,
    audit,
    purpose: 'proposal',
    signal: stop.signal,
    statementTimeoutMs: 0,
  });
  const startedMs = performance.now();
  // The statement that failed, and its message.
  let failure: { readonly at: number; readonly message: string } | null = null;
  let at = 0;
  try {
    await session.query(OWN_SETTINGS);
    for (const sql of statements) {
      await session.query(sql);
      await after?.(session, at);
      at += 1;
    }
  } catch (error) {
    if (stop.signal.aborted) throw error;
    failure = { at, message: messageOf(error) };
  } finally {
    await session.close();
  }
  const durationMs = performance.now() - startedMs;
  await wire.end();
  await accessGate?.finish();
  const exitCode = failure === null ? 0 : 1;
  return {
    ...open,
    failure,
    rewritten: { argv: [], env: {}, rewritten: [], added: [], undecided: [], copies: [], byAddress: false },
    result: { exitCode, signal: null, timedOut: false, durationMs, pid: process.pid, leftRunning: [] },
    // It runs no program.
    ...NO_CONTACTS,
  };
}
