import type { SchemaChange } from '../model/report.ts';

/** A change of the schema that is no change of the database. */
export interface Explained {
  /** What the versions do not explain. */
  readonly changes: SchemaChange[];
  /** Views whose definitions the versions print differently. */
  readonly reprinted: number;
}

/** All privileges on a table, from version 17 on: owners have them before and after, and are said to have gained MAINTAIN. */
const ALL_PRIVILEGES =
  /^GRANT DELETE, INSERT, MAINTAIN, REFERENCES, SELECT, TRIGGER, TRUNCATE, UPDATE ON TABLE .* TO (.*)$/s;
const REVOKED = /^REVOKE ALL ON TABLE .* FROM (.*)$/s;
const VIEWS = new Set(['view', 'materialized view']);

/**
 * Leaves out what only looks different because another version describes it: from version 16 on definitions of views qualify fewer
 * names, from 17 on there is the privilege MAINTAIN.
 */
export function withoutExplained(changes: readonly SchemaChange[]): Explained {
  const has = (verb: SchemaChange['verb'], object: string) =>
    changes.some((each) => each.verb === verb && each.object === object && VIEWS.has(each.kind));
  const views = new Set(changes.filter(({ kind }) => VIEWS.has(kind)).map(({ object }) => object));
  const reprinted = new Set([...views].filter((object) => has('create', object) && has('drop', object)));
  const left = changes.filter(({ object }) => !reprinted.has(object));
  const holders = (pattern: RegExp) =>
    new Set(
      left.flatMap(({ object, sql }) => (pattern.test(sql) ? `${object} ${pattern.exec(sql)?.[1]}` : [])),
    );
  const granted = holders(ALL_PRIVILEGES);
  const isGain = ({ object, sql }: SchemaChange) => {
    const holder = (ALL_PRIVILEGES.exec(sql) ?? REVOKED.exec(sql))?.[1];
    return holder !== undefined && granted.has(`${object} ${holder}`);
  };
  return { changes: left.filter((change) => !isGain(change)), reprinted: reprinted.size };
}
