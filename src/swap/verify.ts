import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { formatUrl } from '../postgres/connection/connection-url.ts';
import type { Session } from '../postgres/connection/session.ts';
import { parseText } from '../postgres/sql/parse.ts';

interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly folder: string;
  readonly signal: AbortSignal;
}

// Its names and limits are those of the user's own sessions.
const OWN_SETTINGS = 'RESET search_path; SET statement_timeout = 0';

/**
 * Asks whether the migrated clone is as it should be: by SQL, whose rows must all begin with a value that is neither
 * null nor false, or by a shell command that gets the clone as DATABASE_URL and must succeed.
 * @throws SafemigrateError `REFUSED` where it is not.
 */
export async function verifyClone(
  verify: string,
  clone: { readonly settings: ConnectionSettings; readonly open: () => Promise<Session> },
  options: Surroundings,
): Promise<void> {
  if ((await parseText(Buffer.from(verify))) === null)
    return verifyByCommand(verify, clone.settings, options);
  const session = await clone.open();
  try {
    await session.query(OWN_SETTINGS);
    const rows = await session.query(verify);
    const wrong = rows.filter((row) => [null, false, undefined].includes(Object.values(row)[0] as null));
    if (rows.length === 0 || wrong.length > 0)
      throw disagrees(rows.length === 0 ? 'it has no row' : 'it says no');
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    throw sqlstate === undefined ? error : disagrees(`${messageOf(error)} (SQLSTATE ${sqlstate})`);
  } finally {
    await session.close();
  }
}

async function verifyByCommand(
  command: string,
  settings: ConnectionSettings,
  { env, folder, signal }: Surroundings,
): Promise<void> {
  const { execa } = await import('execa');
  const result = await execa('sh', ['-c', command], {
    cwd: folder,
    env: { ...env, DATABASE_URL: formatUrl(settings) },
    extendEnv: false,
    stdin: 'ignore',
    stdout: 2,
    stderr: 'inherit',
    reject: false,
    cancelSignal: signal,
  });
  signal.throwIfAborted();
  if (result.exitCode !== 0) throw disagrees(`it ended with exit code ${result.exitCode ?? result.signal}`);
}

function disagrees(why: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `--verify does not agree to the migrated clone: ${why}.`, {
    hint: 'Everything was undone: the target is open, and as it was.',
  });
}
