import { sqlstateOf } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';

/** Encoding and collation of the target, by the names of CREATE DATABASE's options. */
export interface DatabaseLocale {
  readonly encoding: string;
  readonly collate: string;
  readonly ctype: string;
  readonly provider: 'libc' | 'icu' | 'builtin';
  /** Locale of ICU or the built-in provider. */
  readonly locale: string | null;
  readonly icuRules: string | null;
}

/** Providers exist since version 15, rules since 16; 17 renamed the column of the locale and has the built-in provider. */
function localeQuery(versionNum: number): string {
  const columns =
    versionNum >= 170000
      ? 'datlocprovider AS provider, datlocale AS locale, daticurules AS icu_rules'
      : versionNum >= 160000
        ? 'datlocprovider AS provider, daticulocale AS locale, daticurules AS icu_rules'
        : versionNum >= 150000
          ? 'datlocprovider AS provider, daticulocale AS locale, NULL AS icu_rules'
          : "'c' AS provider, NULL AS locale, NULL AS icu_rules";
  return `
SELECT pg_encoding_to_char(encoding) AS encoding, datcollate AS collate, datctype AS ctype, ${columns}
  FROM pg_database WHERE oid = $1`;
}

const PROVIDERS: Readonly<Record<string, DatabaseLocale['provider']>> = {
  c: 'libc',
  i: 'icu',
  b: 'builtin',
};

/** Reads the locale. @param session on the target's server. */
export async function readLocale(
  session: Session,
  versionNum: number,
  databaseOid: number,
): Promise<DatabaseLocale> {
  const [row] = await session.query<{
    encoding: string;
    collate: string;
    ctype: string;
    provider: string;
    locale: string | null;
    icu_rules: string | null;
  }>(localeQuery(versionNum), [databaseOid]);
  if (!row) throw new Error(`no database with OID ${databaseOid}`);
  const { icu_rules: icuRules, provider, ...rest } = row;
  return { ...rest, icuRules, provider: PROVIDERS[provider] ?? 'libc' };
}

/** Formats the clause; providers can be named since version 15. @param versionNum of the server that creates the database. */
export function localeClause(locale: DatabaseLocale, versionNum: number): string {
  const { encoding, collate, ctype, provider, icuRules } = locale;
  const words = [`ENCODING ${literal(encoding)} LC_COLLATE ${literal(collate)} LC_CTYPE ${literal(ctype)}`];
  if (versionNum >= 150000) words.push(`LOCALE_PROVIDER ${provider}`);
  const named = locale.locale === null ? '' : literal(locale.locale);
  if (provider === 'icu') words.push(`ICU_LOCALE ${named}`);
  if (provider === 'builtin') words.push(`BUILTIN_LOCALE ${named}`);
  if (icuRules !== null) words.push(`ICU_RULES ${literal(icuRules)}`);
  return words.join(' ');
}

/** Formats the statement for an empty database, from template0, since template1 may have objects that the target lacks. */
export function creatingStatement(name: string, clauses: string): string {
  return `CREATE DATABASE ${identifier(name)} TEMPLATE template0 ${clauses}`;
}

/**
 * Creates the database; a server that does not know the target's locale uses its default.
 * @param clauses beyond the locale.
 * @returns whether it has the target's locale.
 */
export async function createEmpty(
  session: Session,
  versionNum: number,
  order: { readonly name: string; readonly locale: DatabaseLocale; readonly clauses: string },
): Promise<boolean> {
  const { name, locale, clauses } = order;
  const create = (words: string) => session.query(creatingStatement(name, `${words} ${clauses}`));
  try {
    await create(localeClause(locale, versionNum));
    return true;
  } catch (error) {
    if (!UNKNOWN_HERE.test(sqlstateOf(error) ?? '')) throw error;
    await create(`ENCODING ${literal(locale.encoding)}`);
    return false;
  }
}

export function givingStatement(name: string, owner: string): string {
  return `ALTER DATABASE ${identifier(name)} OWNER TO ${identifier(owner)}`;
}

/**
 * Gives the database to its owner before anything is restored: since version 15 only the owner of the database may create, or
 * own, objects in its schema public. Without the privilege it changes nothing.
 */
export async function giveToOwner(session: Session, name: string, owner: string): Promise<void> {
  try {
    await session.query(givingStatement(name, owner));
  } catch (error) {
    if (sqlstateOf(error) !== INSUFFICIENT_PRIVILEGE) throw error;
  }
}

const INSUFFICIENT_PRIVILEGE = '42501';

/** Recognizes an unknown locale, or a provider that this build or version lacks. */
const UNKNOWN_HERE = /^(0A000|22023|42601|42704|42809)$/;
