import type { Name } from '../../model/statement-actions.ts';

/** Functions with which tools read the catalogs and exclude each other. */
const SYSTEM_FUNCTION =
  /^(?:pg_|has_|current_|session_|inet_|txid_|to_|array_|string_|json|row_|quote_|regexp_|(?:col|obj|shobj)_description$|(?:set_config|version|now|format|format_type|concat|concat_ws|count|max|min|sum|length|lower|upper|replace|unnest|generate_series|generate_subscripts|clock_timestamp|statement_timestamp|timezone)$)/;

/** Whether the name is most likely that of one of PostgreSQL's own functions. */
export function isSystemFunction({ schema, name }: Name): boolean {
  return schema === null ? SYSTEM_FUNCTION.test(name) : schema === 'pg_catalog';
}
