import { resolve } from 'node:path';
import { SafemigrateError } from '../errors.ts';
import type { Profile } from '../model/profile-model.ts';
import type { Caveat } from '../model/report.ts';
import type { ProductionSizes } from '../observe/checks/production-plans.ts';
import {
  type ApplicationQueries,
  readQueryFile,
  readStatStatements,
  STAT_STATEMENTS,
} from '../observe/checks/query-source.ts';
import { readChecks, type UserCheck } from '../observe/checks/user-check.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { ChecksPlan } from './plan.ts';
import { REHEARSAL_SETTINGS } from './rehearsal-settings.ts';

/** Questions to the clone before the command and after it. */
export interface Questions {
  readonly queries: ApplicationQueries | null;
  readonly checks: readonly UserCheck[];
  /** By whose sizes and statistics the queries are planned; null: by those of the clone. */
  readonly production: ProductionSizes | null;
  readonly caveats: readonly Caveat[];
}

/** `queries` is undefined if they come from pg_stat_statements. */
export type Given = Omit<Questions, 'queries' | 'caveats'> & {
  readonly queries: ApplicationQueries | null | undefined;
};

/** Reads the questions of options and files, before anything is touched. @throws SafemigrateError `CONFIGURATION` */
export async function readGiven(
  { queries, check, checkEmpty }: ChecksPlan,
  folder: string,
  profile: Profile | null,
): Promise<Given> {
  return {
    queries: (await givenQueries(queries, folder)) ?? profiledQueries(queries, profile),
    checks: [
      ...(await readChecks(check, 'same', folder)),
      ...(await readChecks(checkEmpty, 'empty', folder)),
    ],
    production: profile,
  };
}

async function givenQueries(queries: string, folder: string): Promise<Given['queries']> {
  if (queries === STAT_STATEMENTS || queries === REHEARSAL_SETTINGS.checks.queries.default) return undefined;
  return queries === 'off' ? null : await readQueryFile(resolve(folder, queries), queries);
}

/** Production's own statements, unless others are asked for by name. */
function profiledQueries(queries: string, profile: Profile | null): Given['queries'] {
  if (queries === 'off') return null;
  if (queries !== REHEARSAL_SETTINGS.checks.queries.default || !profile?.statements) return undefined;
  const { texts, countedSince, utility, hidden } = profile.statements;
  return { source: 'profile', countedSince, queries: texts, utility, hidden };
}

/**
 * Asks the target's server for the application's queries.
 * @throws SafemigrateError `PRIVILEGE` where they were asked for by name and cannot be had.
 */
export async function askTarget(
  session: Session,
  { queries, ...given }: Given,
  databaseOid: number,
  plan: Pick<ChecksPlan, 'queries'>,
  options?: { readonly ofCatalogs: boolean },
): Promise<Questions> {
  if (queries !== undefined) return { ...given, queries, caveats: [] };
  const read = await readStatStatements(session, databaseOid, options);
  if (!('unreadable' in read)) return { ...given, queries: read, caveats: [] };
  const { unreadable: reason } = read;
  if (plan.queries === STAT_STATEMENTS) throw unreadable(reason);
  return { ...given, queries: null, caveats: [{ path: 'queries', kind: 'unmeasured', reason }] };
}

function unreadable(reason: string): SafemigrateError {
  return new SafemigrateError('PRIVILEGE', `--queries ${STAT_STATEMENTS}: ${reason}.`, {
    hint: 'Give a file of queries, or --queries off. The target was not touched.',
  });
}
