import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { formatUrl } from '../postgres/connection/connection-url.ts';
import type { Session } from '../postgres/connection/session.ts';
import { parseText } from '../postgres/sql/parse.ts';

interface VerifyEnvironment {
  readonly env: NodeJS.ProcessEnv;
  readonly folder: string;
  readonly signal: AbortSignal;
}

// The query resolves names and has time as in the user's own sessions.
const OWN_SETTINGS = 'RESET search_path; SET statement_timeout = 0';

/**
 * Verifies the migrated clone by SQL, which must return rows, each with a first value that is neither null nor false, or by a
 * shell command, which gets the clone as DATABASE_URL and must exit with 0.
 * @throws SafemigrateError `REFUSED` if the verification fails.
 */
export async function verifyByQueryOrCommand(
  verify: string,
  clone: { readonly settings: ConnectionSettings; readonly open: () => Promise<Session> },
  options: VerifyEnvironment,
): Promise<void> {
  if ((await parseText(Buffer.from(verify))) === null)
    return verifyByCommand(verify, clone.settings, options);
  const session = await clone.open();
  try {
    await session.query(OWN_SETTINGS);
    const rows = await session.query(verify);
    const wrong = rows.filter((row) => [null, false, undefined].includes(Object.values(row)[0] as null));
    if (rows.length === 0 || wrong.length > 0)
      throw rejected(rows.length === 0 ? 'it returned no row' : 'it returned false or null');
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    throw sqlstate === undefined ? error : rejected(`${messageOf(error)} (SQLSTATE ${sqlstate})`);
  } finally {
    await session.close();
  }
}

async function verifyByCommand(
  command: string,
  settings: ConnectionSettings,
  { env, folder, signal }: VerifyEnvironment,
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
  if (result.exitCode !== 0)
    throw rejected(`it ended with ${result.signal ?? `exit code ${result.exitCode}`}`);
}

function rejected(why: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `--verify rejected the migrated clone: ${why}.`, {
    hint: 'Everything was undone: the target is open and unchanged.',
  });
}
