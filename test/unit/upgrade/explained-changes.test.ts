import { expect, test } from 'vitest';
import type { SchemaChange } from '../../../src/model/report.ts';
import { withoutExplained } from '../../../src/upgrade/explained-changes.ts';

const ALL = 'DELETE, INSERT, MAINTAIN, REFERENCES, SELECT, TRIGGER, TRUNCATE, UPDATE';
const change = (verb: SchemaChange['verb'], kind: string, object: string, sql = ''): SchemaChange => ({
  ...{ verb, kind, object, sql, dataLoss: false },
});

test('a view that is printed differently is no change, and is counted', () => {
  const changes = [
    change('drop', 'view', 'public.v'),
    change('create', 'view', 'public.v'),
    change('grant', 'view', 'public.v', 'GRANT SELECT ON TABLE "public"."v" TO "reader"'),
    change('drop', 'view', 'public.gone'),
  ];
  expect(withoutExplained(changes)).toEqual({ changes: [changes[3]], reprinted: 1 });
});

test('an owner who has the new privilege MAINTAIN is no change, and any other privilege is one', () => {
  const changes = [
    change('revoke', 'table', 'public.t', 'REVOKE ALL ON TABLE "public"."t" FROM "owner"'),
    change('grant', 'table', 'public.t', `GRANT ${ALL} ON TABLE "public"."t" TO "owner"`),
    change('revoke', 'table', 'public.t', 'REVOKE ALL ON TABLE "public"."t" FROM "reader"'),
    change('grant', 'table', 'public.t', 'GRANT SELECT ON TABLE "public"."t" TO "reader"'),
  ];
  expect(withoutExplained(changes)).toEqual({ changes: changes.slice(2), reprinted: 0 });
});
