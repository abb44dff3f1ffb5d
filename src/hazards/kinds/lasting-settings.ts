import { type ChangedDefinition, IN_ALL_DATABASES } from '../../model/definition-kinds.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { HazardRecord } from '../hazard-definition.ts';
import { isNewRole } from './changed-roles.ts';
import { redefined } from './redefined.ts';

/** Settings with which sessions begin. */
export const SETTINGS: readonly HazardRecord[] = [
  redefined(
    'setting',
    {
      code: 'DATABASE_SETTING_CHANGED',
      title: 'sessions of the database begin with another setting',
      condition:
        'ALTER DATABASE … SET, or ALTER ROLE … SET for a role that existed before, gives a setting another value; without IN DATABASE that is found in a clone of the whole cluster. A warning for settings that decide what statements mean or whether they succeed.',
      effect:
        'New sessions behave differently; pooled ones only after they reconnect, so that both behaviours are in use for a while.',
      safer: 'Set it in the connection of the application, or for one role.',
    },
    (_context, { name }) => (DECISIVE.test(name) ? 'warning' : 'notice'),
    'Make sure that running code works with the new value, as soon as it reconnects.',
    isOfNewRole,
  ),
];

const DECISIVE =
  /^(?:search_path|default_transaction_\w+|transaction_\w+|row_security|session_replication_role|role|statement_timeout|lock_timeout|timezone|datestyle|intervalstyle|bytea_output|standard_conforming_strings|transform_null_equals|check_function_bodies|synchronous_commit)$/i;

/** A role that the command makes has no sessions yet. */
function isOfNewRole(context: HazardContext, { relation }: ChangedDefinition): boolean {
  return isNewRole(context, relation.replace(IN_ALL_DATABASES, ''));
}
