import { describe, expect, test } from 'vitest';
import { productionGrants } from '../../../src/hazards/production/at-production-size.ts';
import { type NewRelation, NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import type { ProfiledAccess } from '../../../src/model/profile-model.ts';

const ACCESS: ProfiledAccess = {
  schemas: [
    {
      schema: 'public',
      relations: 20,
      creator: 'shop',
      granted: [
        { role: 'reports', privilege: 'SELECT', relations: 20 },
        { role: 'reports', privilege: 'INSERT', relations: 2 },
        { role: 'web', privilege: 'SELECT', relations: 19 },
        { role: 'web', privilege: 'UPDATE', relations: 18 },
        { role: 'gone', privilege: 'SELECT', relations: 20 },
      ],
    },
    { schema: 'small', relations: 2, creator: 'shop', granted: [] },
  ],
  roles: [
    { role: 'reports', has: ['readers'] },
    { role: 'web', has: [] },
  ],
  defaults: [],
};
const INVOICES = {
  relation: 'public.invoices',
  schema: 'public',
  isView: false,
  usable: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
  grants: [],
};

const missing = (
  access: Partial<ProfiledAccess>,
  grants: NewRelation['grants'] = [],
  made: Partial<NewRelation> = {},
) =>
  productionGrants(
    { ...NO_EFFECTS, newRelations: [{ ...INVOICES, ...made, grants }] },
    { ...ACCESS, ...access },
  ).map(({ role, privileges }) => `${role}: ${privileges}`);

describe('on a new table, by the profile', () => {
  test('roles lack what they have on nearly all others', () => {
    expect(missing({})).toEqual(['reports: SELECT', 'web: SELECT,UPDATE']);
  });

  test.each([
    ['its own', [{ role: 'web', privileges: ['SELECT', 'UPDATE'] }], ['reports: SELECT']],
    ['that of a role it belongs to', [{ role: 'readers', privileges: ['SELECT'] }], ['web: SELECT,UPDATE']],
    ['that of everybody', [{ role: 'PUBLIC', privileges: ['SELECT'] }], ['web: UPDATE']],
  ])('a GRANT covers a role: %s', (_, grants, left) => {
    expect(missing({}, grants)).toEqual(left);
  });

  const defaults = (creator: string, schema: string | null) => ({
    defaults: [{ creator, schema, role: 'reports', privileges: ['SELECT'] }],
  });

  test.each([
    ['of the schema', defaults('shop', 'public'), ['web: SELECT,UPDATE']],
    ['of all schemas', defaults('shop', null), ['web: SELECT,UPDATE']],
    ['of another schema', defaults('shop', 'small'), ['reports: SELECT', 'web: SELECT,UPDATE']],
    ['of another creator', defaults('other', 'public'), ['reports: SELECT', 'web: SELECT,UPDATE']],
    ['of a role that reads all', { roles: [{ role: 'reports', has: ['pg_read_all_data'] }] }, []],
    ['of members of the owner', { roles: [{ role: 'web', has: ['shop'] }] }, []],
  ])('so do the rights %s, if they reach it', (_, access, left) => {
    expect(missing(access)).toEqual(left);
  });

  test.each([
    ['that cannot be written', { usable: ['SELECT'] }, [], ['reports: SELECT', 'web: SELECT']],
    ['that can be written', {}, [], ['reports: SELECT', 'web: SELECT,UPDATE']],
    ['that the role may read', {}, [{ role: 'web', privileges: ['SELECT'] }], ['reports: SELECT']],
  ])('of a view %s', (_, view, grants, left) => {
    expect(missing({}, grants, { isView: true, ...view })).toEqual(left);
  });

  test('default privileges of others are named', () => {
    const effects = { ...NO_EFFECTS, newRelations: [INVOICES] };
    expect(productionGrants(effects, { ...ACCESS, ...defaults('other', null) })[0]).toMatchObject({
      role: 'reports',
      defaultsOf: ['other'],
      owner: 'shop',
      siblings: 20,
      byProfile: true,
    });
  });

  test('what was found here counts in schemas that production does not have', () => {
    const here = { role: 'web', privileges: ['SELECT'], siblings: 4, owner: 'ci', defaultsOf: [] };
    const found = productionGrants(
      {
        ...NO_EFFECTS,
        missingGrants: [
          { ...here, relation: 'public.invoices' },
          { ...here, relation: 'next.things' },
        ],
        newRelations: [
          { ...INVOICES, grants: [{ role: 'PUBLIC', privileges: ['SELECT', 'UPDATE'] }] },
          { ...INVOICES, relation: 'next.things', schema: 'next' },
        ],
      },
      ACCESS,
    );
    expect(found.map(({ relation }) => relation)).toEqual(['next.things']);
  });
});
