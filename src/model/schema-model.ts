import { z } from 'zod';

/** One change of the schema, as a statement. */
export const schemaChange = z.object({
  /** Kind of change. */
  verb: z.enum(['create', 'alter', 'drop', 'rename', 'grant', 'revoke', 'comment']),
  /** PostgreSQL's word for it in lower case: `table`, `column`, `index`, `constraint`, `function`, … */
  kind: z.string(),
  /** Qualified, and quoted if necessary: `public.orders`, `public.orders.email`. */
  object: z.string(),
  /** Statement that makes the change. */
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

/** An object that has another name than before. */
export const rename = z.object({
  /** Kind of object, as in `schema.changes`. */
  kind: z.string(),
  /** Qualified name before the command. */
  from: z.string(),
  /** Qualified name after the command. */
  to: z.string(),
});

/** The schema before and after the command. */
export const schemaSection = z.object({
  /** Fingerprints of the content: equal for databases that have the same schema. */
  before: z.string(),
  /** Fingerprint of the schema after the command. */
  after: z.string(),
  /** Changes from the schema before to the schema after, in an order in which they can be run. */
  changes: z.array(schemaChange),
  /** Objects that were renamed; they are not in `changes` as dropped and created. */
  renames: z.array(rename),
  /** The same changes as whole objects before and after, sorted by name; absent from reports of versions that had no such section. */
  objects: z.array(schemaObject).optional(),
  /** Number of changed objects that are not described, beyond the first 500 or after 2,000,000 characters of definitions. */
  objectsLeftOut: z.int().optional(),
  /** Kinds of objects that the comparison does not cover, and what was seen of them. */
  unmodeled: z.array(
    z.object({
      /** Kind of object, in words. */
      kind: z.string(),
      /** The difference that was seen, in words. */
      detail: z.string(),
    }),
  ),
  /** SQL that turns the schema after into the schema before; null if none could be generated. */
  rollbackSql: z.string().nullable(),
  /** Losses that `rollbackSql` cannot restore, in sentences. */
  rollbackLoses: z.array(z.string()),
  /** Invalid indexes and constraints that are not validated, after the command. */
  leftovers: z.array(
    z.object({
      /** Kind of leftover. */
      kind: z.enum(['invalid index', 'constraint not valid']),
      /** Qualified name of the index or constraint. */
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
