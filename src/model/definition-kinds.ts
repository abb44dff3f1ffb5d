/** Words behind the name of a role whose setting holds in all databases. */
export const IN_ALL_DATABASES = ' in all databases';

/** A definition that changed under its name, or a new one where its presence is the change. */
export interface ChangedDefinition {
  readonly kind:
    | 'constraint'
    | 'trigger'
    /** The triggers of one event, `BEFORE UPDATE`, in the order in which they fire: that of their names. */
    | 'trigger order'
    | 'rule'
    | 'attribute'
    | 'rights'
    | 'setting'
    /** Privileges of PUBLIC, which every role of the server has. */
    | 'open'
    /** Dangers of a function with the rights of its owner that every role may call; named with the types of its arguments. */
    | 'open function'
    /** Uses of a view that go past the policies of its table, by roles that the policies are for: `SELECT for web, UPDATE for web`. */
    | 'past policies'
    /**
     * Columns of tables that a view shows as its owner to a role, `name`, which may not read them in the table. With ` of nothing` if it may
     * read no column of that.
     */
    | 'past columns'
    /** A materialized view that can be refreshed while it is read. */
    | 'refreshable'
    /** Functions of one name that take an exclusive lock, or call one that does: types of their arguments, one function a line: `(integer)`. */
    | 'locking'
    /** Roles that may call a function: those of applications, those that EXECUTE was granted to, and PUBLIC. */
    | 'callers'
    | 'default partition'
    /** The expression of a generated column. */
    | 'generated'
    /** A kind of change that a publication sends. */
    | 'sent'
    /** The filter of a table's rows in a publication. */
    | 'filter'
    /** The name under which a publication sends changes of partitions: `their partitioned table`, `each partition`. */
    | 'partitions sent'
    /** A foreign key whose action sets a NOT NULL column to NULL. */
    | 'null action'
    /** A CHECK of a domain: the tables with a column of the domain. */
    | 'domain check'
    /** A storage parameter that switches autovacuum off for a table. */
    | 'autovacuum off'
    /** A column whose values ANALYZE does not look at. */
    | 'no statistics'
    /** Two columns or expressions of which ANALYZE gathers statistics together. */
    | 'statistics'
    /** The definition of extended statistics, which ANALYZE gathers. */
    | 'statistics object'
    /** Extended statistics that ANALYZE leaves out, because their target is 0: the qualified name. */
    | 'statistics off'
    /** Columns whose default takes values of a sequence that a role may not use, although it may insert: named by sequence and role. */
    | 'insert without sequence'
    /** A policy of a table whose row security is off. */
    | 'idle policy'
    /** A permissive policy that opens rows which others of its table, listed in its text, keep from its roles. */
    | 'wider policy'
    /**
     * A policy of a table with row security: its mode, its command as pg_policy has it, how much its conditions let through of rows that are
     * there (empty: of INSERT) and of new ones, and its roles: `permissive; *; asked; all; web, PUBLIC`. `asked`: that depends on the session;
     * `looked up`: on other tables. No permissive one beside another policy that decides anyway.
     */
    | 'policy'
    /** A digest of a policy, in which `(SELECT f())` is as `f()`. */
    | 'policy meaning'
    /** Functions of one name that every role may call: types of their arguments, one function a line. */
    | 'called by all'
    /** Privileges of a role of requests without a login, on a table without row security. */
    | 'anonymous'
    /** Privileges of such a role to write through a view, which writes to a table without row security as its owner. */
    | 'anonymous view'
    /** Privileges of PUBLIC on later objects of a role: named by role and kind of object. */
    | 'open later'
    /** Privileges of a role of requests without a login on later tables of a role: named by both, and by the schema. */
    | 'anonymous later'
    /** Functions of one name that run as their owner, and that such a role, `name`, may call: types of their arguments, one function a line. */
    | 'called without a login'
    /**
     * Relations of a schema, one a line, on which a role lacks a privilege that it has on at least half of them: named by both,
     * `SELECT for web`.
     */
    | 'left out'
    /**
     * Default privileges of a role that owns none of such objects, named by their kind and schema: in its text, the role that owns most
     * of them, and on the next line the privileges.
     */
    | 'idle defaults'
    /** A function that only its owner and superusers may call. */
    | 'owner only'
    /** A role whose later functions PUBLIC may not call. */
    | 'closed later'
    /** A VOLATILE function that policies or views call: their tables and views. */
    | 'volatile'
    /** Likewise, for an IMMUTABLE function whose body asks for the session or the time. */
    | 'frozen'
    /** A role, by its OID: its name, and on further lines LOGIN, SUPERUSER, BYPASSRLS, EXPIRED and `CONNECTION LIMIT 5`, if it has them. */
    | 'role'
    /**
     * A membership, also through other roles, named by the OIDs of the member and the role: their names, and if the member logs in and is not a
     * superuser, properties of the role: `superuser`, `BYPASSRLS`, `predefined`, `owner` and `granted` (of relations of the database).
     */
    | 'membership'
    /**
     * The partitions of a table by ranges of one column, in JSON: `{ rest, ranges: [{ partition, from, to, apart, gap }] }`, in ascending order.
     * `rest`: there is a DEFAULT partition; `apart`: the next one begins later; `gap`: by less than the width of both ranges.
     */
    | 'ranges'
    /**
     * A column with room for more numbers than the sequence of its default gives, which ends with an integer type, in JSON:
     * `{ schema, sequence, column, type, end, last }`. `column` and `type`: the types of both.
     */
    | 'short sequence'
    /**
     * An extension, in JSON: its schema, and the search paths that do not have it, by role; that of the database is named ''.
     * `{ schema, unreached: { app: 'app, public' } }`
     */
    | 'extension'
    /** CHECK, UNIQUE or FOREIGN KEY constraints of the same columns, in JSON: names and definitions. Named by kind and columns: `c amount`. */
    | 'alike';
  /** The table, view, type, function or publication; for a setting the role: `app in all databases`. */
  readonly relation: string;
  /** Its own name, without quotes; the types of a function's arguments. */
  readonly name: string;
  /** null: there was none. */
  readonly before: string | null;
  /** null: there is none any more. */
  readonly after: string | null;
}
