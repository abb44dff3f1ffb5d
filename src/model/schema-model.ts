import { z } from 'zod';

export const schemaChange = z.object({
  verb: z.enum(['create', 'alter', 'drop', 'rename', 'grant', 'revoke', 'comment']),
  /** PostgreSQL's word for it in lower case: `table`, `column`, `index`, `constraint`, `function`, … */
  kind: z.string(),
  /** Qualified, and quoted if necessary: `public.orders`, `public.orders.email`. */
  object: z.string(),
  sql: z.string(),
  /**
   * The change destroys stored rows or values. A change of type does if the new type cuts or rounds values, or if values
   * were found to have changed (`data.lost[].rowsChanged`). Values that the server refuses to convert are not lost.
   */
  dataLoss: z.boolean(),
});

/**
 * A whole object that differs: a table, for example, with its columns, constraints, indexes, triggers, policies, privileges
 * and comments. The definitions are SQL for people to read, not to run: options of foreign servers and user mappings have no
 * value, definitions of more than 1,000 lines or 100,000 characters are cut and say so, and `another` after a value says that
 * the value before looks the same but is not.
 */
export const schemaObject = z.object({
  /** `alter`: the object exists before and after, even if it was dropped and re-created. */
  verb: z.enum(['create', 'alter', 'drop']),
  /** The same words as in `schema.changes`. */
  kind: z.string(),
  /** The name after the command; for a dropped object, its last name. */
  object: z.string(),
  /** The name before the command, if it was different. */
  formerly: z.string().nullable(),
  /** null: it did not exist. */
  before: z.string().nullable(),
  /** null: it no longer exists. */
  after: z.string().nullable(),
});

export const rename = z.object({ kind: z.string(), from: z.string(), to: z.string() });

export const schemaSection = z.object({
  /** Fingerprints of the content: equal for databases that have the same schema. */
  before: z.string(),
  after: z.string(),
  changes: z.array(schemaChange),
  renames: z.array(rename),
  /** The same changes as whole objects before and after, sorted by name; absent from reports of versions that had no such section. */
  objects: z.array(schemaObject).optional(),
  /** Number of changed objects that are not described, beyond the first 500 or after 2,000,000 characters of definitions. */
  objectsLeftOut: z.int().optional(),
  /** Kinds of objects that the comparison does not cover, and what was seen of them. */
  unmodeled: z.array(z.object({ kind: z.string(), detail: z.string() })),
  /** SQL that turns the schema after into the schema before; null if none could be generated. */
  rollbackSql: z.string().nullable(),
  /** What `rollbackSql` cannot restore, in sentences. */
  rollbackLoses: z.array(z.string()),
  leftovers: z.array(
    z.object({
      kind: z.enum(['invalid index', 'constraint not valid']),
      object: z.string(),
      /** It existed before the command. */
      preexisting: z.boolean(),
    }),
  ),
});

export type SchemaSection = z.infer<typeof schemaSection>;
export type SchemaChange = z.infer<typeof schemaChange>;
export type SchemaObject = z.infer<typeof schemaObject>;
export type Rename = z.infer<typeof rename>;
