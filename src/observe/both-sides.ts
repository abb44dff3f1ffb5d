import type { Target } from '../database/target.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';

/** How to read the target, which has the data as it was, and the clone after the command. */
export interface BothSides {
  readonly target: Pick<Target, 'settings'>;
  /** How to log in to the clone. */
  readonly clone: ConnectionSettings;
  readonly run: RunId;
  /** The id of the target's next transaction before the clone was made; missing: no others wrote. */
  readonly since?: number;
  readonly audit: Audit;
  readonly signal?: AbortSignal;
}

const STATEMENT_TIMEOUT_MS = 1000;
const LOCK_TIMEOUT_MS = 200;

/** Opens a session that can only read, and gives up early. */
export function withReader<T>(
  { run, audit, signal }: BothSides,
  settings: ConnectionSettings,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const opening = openSession(settings, {
    run,
    audit,
    ...(signal === undefined ? {} : { signal }),
    purpose: 'weigh',
    readOnly: true,
    marked: true,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  });
  return withSession(opening, use);
}

export function onBothSides<T>(
  sides: BothSides,
  use: (target: Session, clone: Session) => Promise<T>,
): Promise<T> {
  return withReader(sides, sides.target.settings, (target) =>
    withReader(sides, sides.clone, (clone) => use(target, clone)),
  );
}
