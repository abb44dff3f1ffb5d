import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';

export interface FunctionRow {
  readonly oid: string;
  readonly name: string;
  /** CREATE FUNCTION …, if its body decides. */
  readonly definition: string | null;
  /** It acts with the rights of another role, or was granted to this one. */
  readonly borrowsRights: boolean;
}

const USERS_FUNCTION = `p.oid::pg_catalog.text AS oid, p.proname AS name,
  p.prosecdef AND p.proowner <> current_user::pg_catalog.regrole::pg_catalog.oid AS "borrowsRights"`;
const WITH_EXTENSION = `pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
  LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
    AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
  LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid`;

/**
 * Built-in functions that may not be harmless: not those that are immutable, that only the server itself may call, and that are triggers.
 * In one row, since they are some 600; with it, whether the role, or one that SET ROLE leads to, may act on the server, and whether it may
 * rewrite the catalogues that all databases share: from PostgreSQL 17 on there is a privilege for it.
 */
export const DOUBTFUL_BUILT_IN = `
SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', p.oid, p.proname,
  CASE WHEN p.proacl IS NOT NULL AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE') THEN 'granted' END), ',') AS functions,
  EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE pg_catalog.pg_has_role(r.oid, 'MEMBER') AND (r.rolsuper OR r.rolname IN
    ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files', 'pg_signal_backend'))) AS "mayBecome",
  EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE pg_catalog.pg_has_role(r.oid, 'MEMBER') AND (r.rolsuper OR r.rolname = 'pg_maintain'))
  OR EXISTS (SELECT FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a WHERE c.relisshared AND a.privilege_type = 'MAINTAIN')
    AS "mayRewriteShared"
FROM pg_catalog.pg_proc p
WHERE p.oid < ${FIRST_USER_OID} AND p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.provolatile <> 'i'
  AND p.prorettype <> ALL ('{trigger,internal,language_handler,index_am_handler,table_am_handler,tsm_handler}'::pg_catalog.regtype[])
  AND 'pg_catalog.internal'::pg_catalog.regtype <> ALL (p.proargtypes)`;

/** Functions of extensions and in languages that are not known to be harmless. $1: harmless extensions. $2: exceptions in these. */
export const FOREIGN_CODE = `
SELECT ${USERS_FUNCTION}, NULL AS definition FROM ${WITH_EXTENSION}
WHERE p.oid >= ${FIRST_USER_OID} AND CASE WHEN e.extname IS NULL THEN l.lanname NOT IN ('sql', 'plpgsql') AND p.prokind <> 'a'
  ELSE e.extname <> ALL ($1) OR p.proname = ANY ($2) END`;

/** The user's functions whose body is a text with one of these words. $1: a pattern of them. $2: harmless extensions. */
export const BODIES = `
SELECT ${USERS_FUNCTION}, pg_catalog.pg_get_functiondef(p.oid) AS definition FROM ${WITH_EXTENSION}
WHERE p.oid >= ${FIRST_USER_OID} AND p.prokind IN ('f', 'p') AND l.lanname IN ('sql', 'plpgsql') AND p.prosqlbody IS NULL
  AND p.prosrc ~* $1 AND (e.extname IS NULL OR e.extname <> ALL ($2))`;

export interface ReachedRow {
  readonly kind:
    | 'function'
    | 'table'
    | 'view'
    | 'type'
    | 'operator'
    | 'event trigger'
    | 'login trigger'
    | 'anything';
  readonly name: string;
  readonly oid: string;
  readonly writes: boolean;
  /** Looking after its table runs it: in the expressions of an index or of statistics, or as a type or a foreign table. */
  readonly maintained: boolean;
  /** The function of a trigger of the table's. */
  readonly through: string | null;
}

/** Expressions with a call. Views of one of the server's own relations may be updated. */
export const callOf = (oids: string) => `:(?:funcid|opfuncid|aggfnoid|winfnoid) (${oids}) `;
const OF_CATALOGUES = ':relid (?:\\d{4}|1[0-5]\\d{3}|16[0-2]\\d\\d|163[0-7]\\d|1638[0-3]) ';

const classOf = (name: string) => `'pg_catalog.${name}'::pg_catalog.regclass::pg_catalog.oid`;
const PROC = classOf('pg_proc');
const CLASS = classOf('pg_class');
const TYPE = classOf('pg_type');
const REWRITE = classOf('pg_rewrite');
const TRIGGER = classOf('pg_trigger');
/** The catalogues of what belongs to a relation, a type or an operator class, and of what may use a relation without writing to it. */
const PARTS = [
  'pg_rewrite',
  'pg_attrdef',
  'pg_constraint',
  'pg_trigger',
  'pg_policy',
  'pg_statistic_ext',
  'pg_amproc',
  'pg_amop',
];
const USERS_OF_RELATIONS = ['pg_rewrite', 'pg_type', 'pg_proc', 'pg_policy'];

/**
 * Built-in functions have no rows in pg_depend, so that the expressions themselves are searched for them. An index holds immutable ones
 * only.
 */
const USES_BUILT_IN = `
  SELECT ${PROC} AS class, o AS object, false AS writes FROM pg_catalog.unnest($1::pg_catalog.oid[]) o
    WHERE o >= ${FIRST_USER_OID}
  UNION ALL SELECT ${PROC}, p.oid, false FROM pg_catalog.pg_proc p WHERE p.oid >= ${FIRST_USER_OID}
    AND (p.prosqlbody::pg_catalog.text ~ $2 OR p.proargdefaults::pg_catalog.text ~ $2
      OR p.prosqlbody::pg_catalog.text ~ '${OF_CATALOGUES}' AND p.prosqlbody::pg_catalog.text ~ ':commandType [2-5] ')
  UNION ALL SELECT ${PROC}, a.aggfnoid::pg_catalog.oid, false FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid >= ${FIRST_USER_OID}
    AND ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn]::pg_catalog.oid[] && $1
  UNION ALL SELECT ${classOf('pg_operator')}, o.oid, false FROM pg_catalog.pg_operator o
    WHERE o.oid >= ${FIRST_USER_OID} AND o.oprcode = ANY ($1)
  UNION ALL SELECT ${classOf('pg_cast')}, k.oid, false FROM pg_catalog.pg_cast k
    WHERE k.oid >= ${FIRST_USER_OID} AND k.castfunc = ANY ($1)
  UNION ALL SELECT ${classOf('pg_amproc')}, k.oid, false FROM pg_catalog.pg_amproc k
    WHERE k.oid >= ${FIRST_USER_OID} AND k.amproc = ANY ($1)
  UNION ALL SELECT ${REWRITE}, w.oid, pg_catalog.concat(w.ev_qual, w.ev_action) !~ $2 FROM pg_catalog.pg_rewrite w
    WHERE w.ev_class >= ${FIRST_USER_OID}
      AND (pg_catalog.concat(w.ev_qual, w.ev_action) ~ $2 OR w.ev_action::pg_catalog.text ~ '${OF_CATALOGUES}')
  UNION ALL SELECT ${classOf('pg_attrdef')}, d.oid, false FROM pg_catalog.pg_attrdef d
    WHERE d.adrelid >= ${FIRST_USER_OID} AND d.adbin::pg_catalog.text ~ $2
  UNION ALL SELECT ${classOf('pg_constraint')}, k.oid, false FROM pg_catalog.pg_constraint k
    WHERE k.oid >= ${FIRST_USER_OID} AND k.conbin::pg_catalog.text ~ $2
  UNION ALL SELECT ${classOf('pg_policy')}, p.oid, false FROM pg_catalog.pg_policy p
    WHERE pg_catalog.concat(p.polqual, p.polwithcheck) ~ $2
  UNION ALL SELECT ${TRIGGER}, t.oid, true FROM pg_catalog.pg_trigger t
    WHERE t.tgrelid >= ${FIRST_USER_OID} AND t.tgqual::pg_catalog.text ~ $2
  UNION ALL SELECT ${TYPE}, t.oid, false FROM pg_catalog.pg_type t
    WHERE t.typtype = 'd' AND t.oid >= ${FIRST_USER_OID} AND t.typdefaultbin::pg_catalog.text ~ $2
  UNION ALL SELECT ${classOf('pg_statistic_ext')}, s.oid, false FROM pg_catalog.pg_statistic_ext s
    WHERE s.stxexprs::pg_catalog.text ~ $2
  UNION ALL SELECT ${CLASS}, c.oid, false FROM pg_catalog.pg_class c WHERE c.relkind = 'f'
  UNION ALL SELECT ${PROC}, p.oid, false FROM pg_catalog.pg_proc p WHERE p.oid >= ${FIRST_USER_OID} AND p.proname = ANY ($3)
  UNION ALL SELECT ${CLASS}, c.oid, true FROM pg_catalog.pg_class c WHERE c.oid >= ${FIRST_USER_OID} AND c.relname = ANY ($3)`;

/**
 * All objects of the user's that come to these functions. $1: the functions by their OIDs. $2: a pattern of them in expressions. $3: names
 * of functions, and of tables whose triggers run one.
 * A trigger runs only if its table is written to, also through a view, a parent, or a foreign key that changes rows.
 */
export const REACHED = `
WITH RECURSIVE reached AS (
  SELECT * FROM (${USES_BUILT_IN}) built_in
  UNION
  SELECT x.class, x.object, x.writes FROM reached r CROSS JOIN LATERAL (
    SELECT d.classid AS class, d.objid AS object, d.classid <> ${PROC} AND (r.writes OR d.classid = ${TRIGGER}) AS writes
    FROM pg_catalog.pg_depend d
    WHERE d.refclassid = r.class AND d.refobjid = r.object AND d.deptype <> 'e' AND d.classid <> ${classOf('pg_language')}
      AND (r.class <> ${CLASS} OR d.classid IN (${USERS_OF_RELATIONS.map(classOf).join(', ')}))
      AND NOT (r.writes AND d.classid = ${TYPE})
    UNION ALL
    SELECT d.refclassid, d.refobjid, r.writes FROM pg_catalog.pg_depend d
    WHERE d.classid = r.class AND d.objid = r.object AND d.deptype IN ('a', 'i') AND r.class IN (${PARTS.map(classOf).join(', ')})
    UNION ALL
    SELECT ${CLASS}, i.indrelid, r.writes FROM pg_catalog.pg_index i WHERE r.class = ${CLASS} AND i.indexrelid = r.object
    UNION ALL
    SELECT ${CLASS}, i.inhparent, r.writes FROM pg_catalog.pg_inherits i WHERE r.class = ${CLASS} AND i.inhrelid = r.object
    UNION ALL
    SELECT ${CLASS}, k.confrelid, true FROM pg_catalog.pg_constraint k
    WHERE r.class = ${CLASS} AND k.conrelid = r.object AND k.contype = 'f'
      AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))
    UNION ALL
    SELECT ${TYPE}, t.type, false FROM pg_catalog.pg_cast k, LATERAL (VALUES (k.castsource), (k.casttarget)) t(type)
    WHERE r.class = ${classOf('pg_cast')} AND k.oid = r.object
      AND (t.type >= ${FIRST_USER_OID} OR k.castsource < ${FIRST_USER_OID} AND k.casttarget < ${FIRST_USER_OID})
    UNION ALL
    SELECT ${TYPE}, o.opcintype, false FROM pg_catalog.pg_opclass o WHERE r.class = ${classOf('pg_opclass')} AND o.oid = r.object
  ) x
)
SELECT 'function' AS kind, p.proname AS name, p.oid::pg_catalog.text AS oid, false AS writes, false AS maintained, NULL AS through
FROM reached r JOIN pg_catalog.pg_proc p ON r.class = ${PROC} AND p.oid = r.object WHERE p.oid >= ${FIRST_USER_OID}
UNION SELECT CASE c.relkind WHEN 'v' THEN 'view' ELSE 'table' END, c.relname, c.oid::pg_catalog.text, r.writes,
  c.relkind = 'f' OR EXISTS (SELECT FROM pg_catalog.pg_index i JOIN reached x ON x.class = ${CLASS} AND x.object = i.indexrelid
    WHERE i.indrelid = c.oid)
  OR EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s JOIN reached x ON x.class = ${classOf('pg_statistic_ext')} AND x.object = s.oid
    WHERE s.stxrelid = c.oid)
  OR EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    JOIN reached x ON x.class = ${TYPE} AND x.object = t.oid
    WHERE a.attrelid = c.oid AND (t.typtype <> 'd' OR t.typbasetype >= ${FIRST_USER_OID})),
  (SELECT p.proname::pg_catalog.text FROM pg_catalog.pg_trigger t JOIN reached x ON x.class = ${PROC} AND x.object = t.tgfoid
    JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid WHERE r.writes AND t.tgrelid = c.oid LIMIT 1)
FROM reached r JOIN pg_catalog.pg_class c ON r.class = ${CLASS} AND c.oid = r.object WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
UNION SELECT CASE WHEN t.oid < ${FIRST_USER_OID} THEN 'anything' ELSE 'type' END, t.typname, t.oid::pg_catalog.text, false, false, NULL
FROM reached r JOIN pg_catalog.pg_type t ON r.class = ${TYPE} AND t.oid = r.object
UNION SELECT 'operator', o.oprname, o.oid::pg_catalog.text, false, false, NULL
FROM reached r JOIN pg_catalog.pg_operator o ON r.class = ${classOf('pg_operator')} AND o.oid = r.object
UNION SELECT CASE t.evtevent WHEN 'login' THEN 'login trigger' ELSE 'event trigger' END, t.evtname, t.oid::pg_catalog.text, false, false, NULL
FROM reached r JOIN pg_catalog.pg_event_trigger t ON r.class = ${classOf('pg_event_trigger')} AND t.oid = r.object`;
