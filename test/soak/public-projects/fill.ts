/**
 * Rows of each table: row n has n in every column, in whatever shape its type has, and so refers to rows n; the first value
 * where only some are allowed.
 */
export const ROWS = 1_200;

const INSERT = `'INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM generate_series(1, ${ROWS}) n'`;

/** Values instead of NULLs and empty texts in all tables of the schema public, as code of the projects would put there. */
export const FILL_NULLS = filling('false');

/** Rows in all empty tables, as far as their constraints let them in, and values instead of NULLs and empty texts in the others. */
export const FILL = filling('true');

function filling(rows: 'true' | 'false'): string {
  return `
DO $fill$
DECLARE
  t record; c record; found boolean; names text; vals text; needed text; needed_vals text;
BEGIN
  -- Tables that refer to each other get their rows without these references first.
  FOR pass IN 1..2 LOOP
  FOR t IN SELECT oid, oid::regclass::text AS name FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY oid LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', t.name) INTO found;
    names := NULL; vals := NULL; needed := NULL; needed_vals := NULL;
    FOR c IN SELECT quote_ident(attname) AS name, attnotnull,
        NOT attnotnull AND EXISTS (SELECT FROM pg_constraint
          WHERE conrelid = attrelid AND contype = 'f' AND attnum = ANY (conkey)) AS isReference, typ ~ '^(text|character)' AS isText,
        CASE
          WHEN one_of IS NOT NULL THEN quote_literal(one_of) || '::' || typ
          WHEN typ LIKE '%[]' THEN '''{}''::' || typ
          WHEN typ = 'smallint' THEN '(n % 30000)::smallint'
          WHEN typ IN ('boolean') THEN 'true'
          WHEN typ IN ('json', 'jsonb') THEN 'to_jsonb(n)::' || typ
          WHEN typ = 'uuid' THEN 'md5(n::text)::uuid'
          WHEN typ LIKE 'timestamp%' THEN '(timestamptz ''2026-01-01'' + n * interval ''1 minute'')::' || typ
          WHEN typ = 'date' THEN '(date ''2026-01-01'' + n)'
          WHEN typ = 'interval' THEN '(n * interval ''1 second'')'
          WHEN typ = 'tsvector' THEN 'to_tsvector(''simple'', n::text)'
          WHEN typ LIKE 'numeric%' THEN '(n * 0.1)::' || typ
          WHEN typ = 'inet' THEN '(inet ''10.0.0.0'' + n)'
          ELSE 'n::text::' || typ
        END AS val
        FROM (SELECT *, format_type(atttypid, atttypmod) AS typ, coalesce(
                (SELECT enumlabel::text FROM pg_enum WHERE enumtypid = atttypid ORDER BY enumsortorder LIMIT 1),
                (SELECT substring(pg_get_constraintdef(oid) FROM '= ANY \\(\\(?ARRAY\\[''([^'']*)''') FROM pg_constraint
                  WHERE conrelid = attrelid AND contype = 'c' AND conkey = ARRAY[attnum] LIMIT 1)) AS one_of
                FROM pg_attribute) a
       WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' LOOP
      IF found AND (c.isText OR NOT c.attnotnull) THEN
        BEGIN
          EXECUTE format('UPDATE %1$s SET %2$s = %3$s FROM (SELECT ctid AS at, row_number() OVER () AS n FROM %1$s) r
                           WHERE %1$s.ctid = r.at AND (%1$s.%2$s IS NULL %4$s)', t.name, c.name, c.val,
                         CASE WHEN c.isText THEN format('OR %s.%s = ''''', t.name, c.name) END);
        EXCEPTION WHEN integrity_constraint_violation THEN
          RAISE WARNING 'no values in %.%: %', t.name, c.name, SQLERRM;
        END;
      END IF;
      names := concat_ws(', ', names, c.name);
      vals := concat_ws(', ', vals, c.val);
      CONTINUE WHEN c.isReference;
      needed := concat_ws(', ', needed, c.name);
      needed_vals := concat_ws(', ', needed_vals, c.val);
    END LOOP;
    IF NOT found AND ${rows} THEN
      BEGIN
        BEGIN
          EXECUTE format(${INSERT}, t.name, names, vals);
        EXCEPTION WHEN foreign_key_violation THEN
          EXECUTE format(${INSERT}, t.name, needed, needed_vals);
        END;
      EXCEPTION WHEN integrity_constraint_violation THEN
        RAISE WARNING 'no rows in %: %', t.name, SQLERRM;
      END;
    END IF;
  END LOOP;
  END LOOP;
END
$fill$`;
}
