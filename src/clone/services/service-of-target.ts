import type { Target } from '../../database/target.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { allServices, type ListedService } from './service-list.ts';

const PROCEDURES = 'SELECT proname AS name FROM pg_catalog.pg_proc WHERE proname = ANY ($1)';
const ROLES = 'SELECT rolname AS name FROM pg_catalog.pg_roles WHERE rolname = ANY ($1)';

/** Recognises the service by functions that only its servers have, by the target's host, or by roles. @returns undefined for a server of another kind. */
export async function serviceOfTarget(
  { settings }: Pick<Target, 'settings'>,
  session: Pick<Session, 'query'>,
): Promise<ListedService | undefined> {
  const services = await allServices();
  const names = async (question: string, wanted: readonly (string | undefined)[]) => {
    const rows = await session.query<{ name: string }>(question, [
      wanted.filter((each) => each !== undefined),
    ]);
    return rows.map(({ name }) => name);
  };
  const procedures = await names(
    PROCEDURES,
    services.map(({ signs }) => signs.procedure),
  );
  // Functions come first: an instance of Aurora has a host as those of RDS, and their roles.
  const known =
    services.find(({ signs }) => procedures.includes(signs.procedure ?? '')) ??
    services.find(({ signs }) => settings.hosts.some(({ host }) => signs.host?.test(host)));
  if (known !== undefined) return known;
  const roles = await names(
    ROLES,
    services.map(({ signs }) => signs.role),
  );
  return services.find(({ signs }) => roles.includes(signs.role ?? ''));
}
