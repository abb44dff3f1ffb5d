import type { Session } from '../postgres/connection/session.ts';

/** Facts that the target's server knows and a copy of its files lacks: slots, standbys, the rules of its pg_hba.conf. */
export interface TargetClusterFacts {
  readonly slots: readonly {
    readonly name: string;
    readonly type: string;
    readonly database: string | null;
  }[];
  readonly standbys: readonly string[];
  /** Tablespaces inside the data directory. */
  readonly tablespacesInside: readonly string[];
  /** null: the role may not read them. */
  readonly loginMethods: readonly { readonly method: string; readonly rule: string }[] | null;
}

const SLOTS = `
SELECT slot_name::text AS name, slot_type AS type, database::text FROM pg_replication_slots
 WHERE NOT temporary ORDER BY 1`;

const STANDBYS = `
SELECT DISTINCT coalesce(nullif(application_name, ''), client_addr::text, 'a standby') AS name
  FROM pg_stat_replication ORDER BY 1`;

const TABLESPACES_INSIDE = `
SELECT spcname || ' in ' || pg_tablespace_location(oid) AS name FROM pg_tablespace
 WHERE pg_tablespace_location(oid) LIKE current_setting('data_directory') || '/%' ORDER BY 1`;

const READS_RULES =
  "SELECT has_function_privilege('pg_catalog.pg_hba_file_rules()', 'EXECUTE') AND has_table_privilege('pg_catalog.pg_hba_file_rules', 'SELECT') AS may";

const RULES = `
SELECT auth_method AS method, 'line ' || line_number || ': ' || concat_ws(' ', type, array_to_string(database, ','),
       array_to_string(user_name, ','), address || coalesce('/' || netmask, ''), auth_method) AS rule
  FROM pg_hba_file_rules WHERE error IS NULL ORDER BY line_number`;

/** Reads them. Sends nothing that the role may not. */
export async function readTargetFacts(session: Session): Promise<TargetClusterFacts> {
  const slots = await session.query<TargetClusterFacts['slots'][number]>(SLOTS);
  const standbys = await session.query<{ name: string }>(STANDBYS);
  const [readable] = await session.query<{ may: boolean }>(READS_RULES);
  const rules = readable?.may ? await session.query<{ method: string; rule: string }>(RULES) : null;
  const inside = await session.query<{ name: string }>(TABLESPACES_INSIDE);
  return {
    slots,
    standbys: standbys.map(({ name }) => name),
    tablespacesInside: inside.map(({ name }) => name),
    loginMethods: rules,
  };
}
