import {
  type EffectFacts,
  EXPECTED_GRANTS,
  type MissingGrant,
  type NewRelation,
} from '../../model/hazard-facts.ts';
import type { ProfiledAccess } from '../../model/profile-model.ts';

/** What a role of these names has without a GRANT. */
const READS_ALL = 'pg_read_all_data';
const WRITES_ALL = 'pg_write_all_data';

/**
 * Returns who would lack privileges on the new relations in production: of the schemas that the profile has, by its grants and default
 * privileges, as if the owner of most of a schema's relations made them; of others, what was found here.
 */
export function productionGrants(
  { missingGrants, newRelations }: EffectFacts,
  access: ProfiledAccess,
): MissingGrant[] {
  const known = new Set(access.schemas.map(({ schema }) => schema));
  const schemaOf = new Map(newRelations.map(({ relation, schema }) => [relation, schema]));
  return [
    ...missingGrants.filter(({ relation }) => !known.has(schemaOf.get(relation) ?? '')),
    ...newRelations.flatMap((relation) => missingOn(relation, access)),
  ];
}

function missingOn({ relation, schema, grants }: NewRelation, access: ProfiledAccess): MissingGrant[] {
  const siblings = access.schemas.find((each) => each.schema === schema);
  if (!siblings || siblings.relations < EXPECTED_GRANTS.relations) return [];
  const { creator, granted } = siblings;
  const inSchema = access.defaults.filter((each) => each.schema === null || each.schema === schema);
  const given = [...grants, ...inSchema.filter((each) => each.creator === creator)];
  return access.roles.flatMap(({ role, has }): MissingGrant[] => {
    const own = new Set([role, 'PUBLIC', ...has]);
    const isCovered = (privilege: string) =>
      own.has(creator) ||
      own.has(privilege === 'SELECT' ? READS_ALL : WRITES_ALL) ||
      given.some((each) => own.has(each.role) && each.privileges.includes(privilege));
    const privileges = granted
      .filter((each) => each.role === role && each.relations >= siblings.relations * EXPECTED_GRANTS.share)
      .map(({ privilege }) => privilege)
      .filter((privilege) => !isCovered(privilege));
    if (privileges.length === 0) return [];
    const defaultsOf = inSchema.filter((each) => each.role === role).map((each) => each.creator);
    const missing = { relation, role, privileges, siblings: siblings.relations, owner: creator };
    return [
      {
        ...missing,
        defaultsOf: [...new Set(defaultsOf)].filter((each) => each !== creator),
        byProfile: true,
      },
    ];
  });
}
