import type { ServerVersion } from '../../src/server/binaries.ts';
import { openSession } from '../../src/target/connect.ts';
import type { Session } from '../../src/target/session.ts';
import type { ConnectionSettings } from '../../src/target/settings.ts';
import { surroundings } from '../../src/target/surroundings.ts';
import { parseSettings } from '../../src/target/url.ts';
import { temporaryDatabase } from './database.ts';

export interface Scratch {
  readonly settings: ConnectionSettings;
  /** Unqualified names are those of the schema public. */
  readonly session: Session;
  drop(): Promise<void>;
}

/** A database of its own with a session of ours in it, for tests of what reads catalogues. */
export async function scratch(version: ServerVersion, sql?: string): Promise<Scratch> {
  const database = await temporaryDatabase(version, sql === undefined ? {} : { sql });
  const settings = parseSettings(database.url, surroundings({}, '.'));
  const session = await openSession(settings, { purpose: 'test' });
  await session.query('SET search_path = public');
  return {
    settings,
    session,
    drop: async () => {
      await session.close();
      await database.drop();
    },
  };
}
