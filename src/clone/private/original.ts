import { realpath } from 'node:fs/promises';
import { SafemigrateError } from '../../errors.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { CloneContext } from '../method.ts';

/** Facts about the first server that the second one depends on. */
export type Original = Awaited<ReturnType<typeof readOriginal>>;

// Settings of our own session hide the server's values. Those of ALTER ROLE and ALTER DATABASE are part of the copy.
const SETTINGS = `
SELECT name, CASE source WHEN 'session' THEN reset_val ELSE setting END AS value
  FROM pg_settings
 WHERE context <> 'internal'
   AND (source IN ('configuration file', 'command line', 'environment variable')
        OR source = 'session' AND reset_val IS DISTINCT FROM boot_val)
 ORDER BY name`;

const FACTS = `
SELECT (SELECT setting::int8 * current_setting('block_size')::int8 FROM pg_settings
         WHERE name = 'shared_buffers')::text AS shared_buffers,
       pg_has_role('pg_read_all_settings', 'USAGE') AS reads_all,
       (SELECT rolname::text FROM pg_roles WHERE rolsuper AND rolcanlogin ORDER BY oid LIMIT 1) AS superuser`;

const FOLDERS = `
SELECT setting AS text FROM pg_settings WHERE name IN ('data_directory', 'unix_socket_directories')
UNION ALL
SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global')`;

/** Reads the facts. @throws SafemigrateError `CLONE` if no superuser may log in. */
export async function readOriginal(context: CloneContext) {
  const { control, source, run, audit, signal } = context;
  const rows = await control.query<{ name: string; value: string }>(SETTINGS);
  const [facts] = await control.query<{
    shared_buffers: string;
    reads_all: boolean;
    superuser: string | null;
  }>(FACTS);
  if (!facts?.superuser) {
    throw new SafemigrateError(
      'CLONE',
      'No superuser of the target may log in, and a clone of the cluster needs one.',
      { hint: 'The target was not touched. Give one of its superusers LOGIN.' },
    );
  }
  const options = { run, audit, signal, purpose: 'inspect', readOnly: true };
  const own = await readFolders(control);
  const copied = source ? await withSession(openSession(source.settings, options), readFolders) : [];
  return {
    settings: new Map(rows.map(({ name, value }) => [name, value])),
    sharedBuffersBytes: Number(facts.shared_buffers),
    /** A superuser that may log in. */
    superuser: facts.superuser,
    /** Our role may not read all settings: preloaded libraries and file locations are unknown. */
    partly: !facts.reads_all,
    /** Folders with files and sockets of the original, and of the standby that is copied instead of it, without symbolic links. */
    folders: [...new Set([...own, ...copied])],
  };
}

async function readFolders(session: Session): Promise<string[]> {
  const rows = await session.query<{ text: string | null }>(FOLDERS);
  const named = rows.flatMap(({ text }) => (text ?? '').split(','));
  const folders = named.map((place) => place.trim().replace(/^"(.*)"$/, '$1'));
  return Promise.all(
    folders.filter((place) => place.startsWith('/')).map((place) => realpath(place).catch(() => place)),
  );
}
