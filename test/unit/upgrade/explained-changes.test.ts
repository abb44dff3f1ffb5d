import { expect, test } from 'vitest';
import type { SchemaChange } from '../../../src/model/report.ts';
import { withoutExplained } from '../../../src/upgrade/ask-application.ts';

const ALL = 'DELETE, INSERT, MAINTAIN, REFERENCES, SELECT, TRIGGER, TRUNCATE, UPDATE';
const change = (verb: SchemaChange['verb'], kind: string, object: string, sql = ''): SchemaChange => ({
  verb,
  kind,
  object,
  sql,
  dataLoss: false,
});

test('an owner who has the new privilege MAINTAIN is no change, and any other privilege is one', () => {
  const changes = [
    change('revoke', 'table', 'public.t', 'REVOKE ALL ON TABLE "public"."t" FROM "owner"'),
    change('grant', 'table', 'public.t', `GRANT ${ALL} ON TABLE "public"."t" TO "owner"`),
    change('revoke', 'table', 'public.t', 'REVOKE ALL ON TABLE "public"."t" FROM "reader"'),
    change('grant', 'table', 'public.t', 'GRANT SELECT ON TABLE "public"."t" TO "reader"'),
  ];
  expect(withoutExplained(changes)).toEqual(changes.slice(2));
});

test('properties of a subscription are no change, and a subscription that is gone is one', () => {
  const gone = change('drop', 'subscription', 'feed');
  expect(withoutExplained([change('alter', 'subscription', 'sub'), gone])).toEqual([gone]);
});
