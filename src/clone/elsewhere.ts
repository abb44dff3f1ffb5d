import { setTimeout as delay } from 'node:timers/promises';
import { inspectTarget } from '../database/inspect.ts';
import { compareByText, comparer } from '../database/same-target.ts';
import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { MadeDatabases } from '../ownership/made-databases.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import type { Clone, CloneContext } from './method.ts';
import { lostServer, ownControl } from './own-sessions.ts';

/** Time that a new server may take to answer. */
const PATIENCE_MS = 60_000;
const TRY_EVERY_MS = 500;

/** The program that named a clone on another server: for messages. */
export interface CloneSource {
  readonly source: string;
  /** `--clone-create printed`. */
  readonly says: string;
  /** The consequence of a refusal, as the end of the hint. */
  readonly afterwards: string;
}

/**
 * Waits until the server of a clone answers, and checks that it is not the target.
 * @throws SafemigrateError `CLONE` for the target itself, and if that cannot be ruled out.
 */
export async function reachElsewhere(
  { audit, signal, target }: CloneContext,
  settings: ConnectionSettings,
  teller: CloneSource,
): Promise<{ there: Target; isolation: Clone['isolation'] }> {
  if (compareByText(settings, target.settings)?.kind === 'same') throw isTarget(teller);
  const there = await inspectPatiently();
  return { there, isolation: await isolationOf(target, there, teller, signal) };

  async function inspectPatiently(): Promise<Target> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await inspectTarget(settings, teller.source, { audit, signal });
      } catch (error) {
        const mayPass = error instanceof SafemigrateError && error.code === 'CONNECTION';
        if (!mayPass || performance.now() >= deadline) throw error;
        await delay(TRY_EVERY_MS, undefined, { signal });
      }
    }
  }
}

/** Judges by both servers. A branch or snapshot of the target has its system identifier, but another start time. */
async function isolationOf(
  target: Target,
  there: Target,
  teller: CloneSource,
  signal: AbortSignal,
): Promise<Clone['isolation']> {
  const verdict = await comparer(target.settings, signal)(there.settings);
  switch (verdict.kind) {
    case 'same':
      throw isTarget(teller);
    case 'other-database':
      return 'same-cluster';
    case 'other-server':
      return 'own-cluster';
    case 'undecided': {
      const { systemIdentifier } = there.server;
      if (systemIdentifier !== null && systemIdentifier === target.server.systemIdentifier)
        return 'own-cluster';
      throw new SafemigrateError(
        'CLONE',
        `It cannot be decided whether ${teller.says} the URL of a database other than the target: ${verdict.reason}.`,
        { hint: 'Nothing was done to that database.' },
      );
    }
  }
}

function isTarget({ says, afterwards }: CloneSource): SafemigrateError {
  return new SafemigrateError('CLONE', `${says} the URL of the target itself.`, {
    hint: `It must be the URL of the new clone. Nothing was done to the target; ${afterwards}`,
  });
}

/** Opens a clone on another server, and returns the parts that all ways to make one share. */
export async function openElsewhere(
  context: CloneContext,
  { there, isolation }: { there: Target; isolation: Clone['isolation'] },
  scope: Scope,
): Promise<Omit<Clone, 'method' | 'strategy' | 'reason' | 'durationMs' | 'touched' | 'caveats' | 'keep'>> {
  const { run, audit } = context;
  const control = await ownControl(context, there, scope);
  control.onLost((reason) => context.fail(lostServer(reason)));
  const made = new MadeDatabases(run, control, async () => {});
  await scope.own(
    'databases beside the clone',
    async () => {},
    async () => {
      for (const name of made.names)
        if ((await made.ownershipStatus(name)) === 'made')
          await control.query(`DROP DATABASE ${identifier(name)} WITH (FORCE)`);
    },
  );
  return {
    isolation,
    containment: isolation === 'same-cluster' ? 'target-server' : 'other-server',
    database: there.database.name,
    oid: there.database.oid,
    connect: there.settings,
    sharesRoles: false,
    server: { control, open: (purpose) => openMaintenanceSession(there, { run, audit, purpose }) },
    marking: () => null,
    made,
    stallMs: 0,
    notCarried: [],
    uniqueBytes: async () => ({ unmeasured: 'the space that an external clone takes is not known here' }),
  };
}
