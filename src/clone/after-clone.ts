import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { parseText } from '../postgres/sql/parse.ts';
import { messageWithoutSecrets, statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Clone, CloneContext } from './method.ts';

/** The user's SQL that prepares the clone before anything is measured: it masks personal data, or removes secrets. */
export interface Script {
  /** The words of the user. */
  readonly name: string;
  readonly sql: string;
}

/** Reads the scripts, each SQL or the name of a file. @throws SafemigrateError `CONFIGURATION` for a file that cannot be read. */
export function readScripts(texts: readonly string[], folder: string, option = '--after-clone'): Script[] {
  return texts.map((text) => {
    const name = text.trim();
    const file = path.resolve(folder, name);
    // No SQL statement is a single word.
    if (/\s/.test(name) && !existsSync(file)) return { name, sql: name };
    try {
      return { name, sql: readFileSync(file, 'utf8') };
    } catch (cause) {
      throw new SafemigrateError('CONFIGURATION', `${option}: ${file} cannot be read: ${messageOf(cause)}.`, {
        hint: 'Nothing was touched.',
        cause,
      });
    }
  });
}

// The scripts resolve names and have limits as in the user's own sessions, except for the statement timeout.
const OWN_SETTINGS = 'RESET ALL; SET statement_timeout = 0';

// Added to a text that is one transaction: the id of it, if it wrote anything.
const ITS_TRANSACTION =
  'SELECT pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.xid::pg_catalog.text AS xid';

/**
 * Runs the scripts on the clone, as the target's user, all in one session.
 * @returns the clone, with the scripts noted among its differences from the target, and the ids of their transactions.
 * @throws SafemigrateError `CLONE` for the first script that fails.
 */
export async function prepareClone(
  clone: Clone,
  scripts: readonly Script[],
  { run, audit, signal }: Pick<CloneContext, 'run' | 'audit' | 'signal'>,
): Promise<Clone> {
  if (scripts.length === 0) return clone;
  const preparedIn: number[] = [];
  const session = await openSession(clone.connect, {
    run,
    audit,
    signal,
    purpose: 'after-clone',
    statementTimeoutMs: 0,
  });
  try {
    await session.query(OWN_SETTINGS);
    for (const { name, sql } of scripts) {
      try {
        const parsed = await parseText(Buffer.from(sql));
        const isOne = parsed?.every(({ wraps, role }) => wraps && role === 'ordinary') ?? false;
        const results = await session.queryAll<{ xid?: string | null }>(
          isOne ? [sql, ITS_TRANSACTION] : [sql],
        );
        const xid = isOne ? results.at(-1)?.[0]?.xid : null;
        if (xid != null) preparedIn.push(Number(xid));
      } catch (error) {
        signal.throwIfAborted();
        if (sqlstateOf(error) === undefined) throw error;
        throw new SafemigrateError(
          'CLONE',
          `--after-clone ${shortenedScript(name)} failed on the clone: ${messageWithoutSecrets(messageOf(error), sql)}`,
          {
            cause: error,
            hint: 'The target was not touched, and the command was not run.',
          },
        );
      }
    }
  } finally {
    await session.close();
  }
  const reason =
    "the clone was changed by --after-clone before the command: its data is not all the target's";
  return { ...clone, preparedIn, caveats: [...clone.caveats, { path: 'clone', kind: 'estimate', reason }] };
}

const SHOWN_CHARACTERS = 80;

/** A script in one line, without secrets, for a message. */
export function shortenedScript(name: string): string {
  const line = statementWithoutSecrets(name).replace(/\s+/g, ' ');
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
}
