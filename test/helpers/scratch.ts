import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../src/postgres/connection/connection-settings.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import type { Session } from '../../src/postgres/connection/session.ts';
import { temporaryDatabase } from './database.ts';

export interface Scratch {
  /** A superuser's. */
  readonly url: string;
  readonly settings: ConnectionSettings;
  /** Unqualified names are those of the schema public. Pipelined, as probes and checks of queries want it. */
  readonly session: Session;
  drop(): Promise<void>;
}

/** A database of its own with a session of ours in it, for tests of what reads catalogues. */
export async function scratch(version: ServerVersion, sql?: string): Promise<Scratch> {
  const database = await temporaryDatabase(version, sql === undefined ? {} : { sql });
  const settings = parseSettings(database.url, readEnvironment({}, '.'));
  const session = await openSession(settings, { purpose: 'test', pipelined: true });
  await session.query('SET search_path = public');
  return {
    url: database.url,
    settings,
    session,
    drop: async () => {
      await session.close();
      await database.drop();
    },
  };
}
