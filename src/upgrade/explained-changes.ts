import type { SchemaChange } from '../model/report.ts';

/** All privileges on a table, from version 17 on: owners have them before and after, and are said to have gained MAINTAIN. */
const ALL_PRIVILEGES =
  /^GRANT DELETE, INSERT, MAINTAIN, REFERENCES, SELECT, TRIGGER, TRUNCATE, UPDATE ON TABLE .* TO (.*)$/s;
const REVOKED = /^REVOKE ALL ON TABLE .* FROM (.*)$/s;

/**
 * Leaves out what only looks different because another version describes it: from 17 on there is the privilege MAINTAIN, and each
 * version has more properties of subscriptions, which pg_upgrade disables besides.
 */
export function withoutExplained(changes: readonly SchemaChange[]): SchemaChange[] {
  const granted = new Set(
    changes.flatMap(({ object, sql }) => {
      const holder = ALL_PRIVILEGES.exec(sql)?.[1];
      return holder === undefined ? [] : [`${object} ${holder}`];
    }),
  );
  return changes.filter(({ verb, kind, object, sql }) => {
    if (verb === 'alter' && kind === 'subscription') return false;
    const holder = (ALL_PRIVILEGES.exec(sql) ?? REVOKED.exec(sql))?.[1];
    return holder === undefined || !granted.has(`${object} ${holder}`);
  });
}
