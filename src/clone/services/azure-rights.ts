import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { ServiceCli } from './clone-service.ts';

const names = z.optional(z.nullable(z.array(z.string())));
const permissions = z.object({
  /** One for each role of the login. A role takes back only actions that it gives. */
  value: z.array(z.object({ actions: names, notActions: names })),
  nextLink: z.optional(z.nullable(z.string())),
});

const SERVERS = 'Microsoft.DBforPostgreSQL/flexibleServers';
const OF_SERVERS = [`${SERVERS}/read`, `${SERVERS}/write`, `${SERVERS}/delete`];
const OF_RULES = [`${SERVERS}/firewallRules/read`, `${SERVERS}/firewallRules/write`];

/**
 * Asks Azure which needed rights the login lacks in the resource group of a server.
 * @returns none if the login may not ask, or Azure does not tell all of them at once.
 */
export async function missingAzureRights(
  cli: ServiceCli,
  serverId: string,
  { hasRules }: { readonly hasRules: boolean },
): Promise<string[]> {
  const [group = ''] = serverId.split('/providers/');
  const url = `${group}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01`;
  const call = ['rest', '--method', 'get', '--url', url, '--output', 'json'];
  const { value, nextLink } = await cli.json(call, permissions).catch((error: unknown) => {
    if (error instanceof SafemigrateError) return { value: [], nextLink: 'unknown' };
    throw error;
  });
  if (nextLink) return [];
  const needed = [...OF_SERVERS, ...(hasRules ? OF_RULES : [])];
  return needed.filter(
    (right) =>
      !value.some(
        ({ actions, notActions }) => includesRight(actions, right) && !includesRight(notActions, right),
      ),
  );
}

/** Tells if a list has the right, as `*` or `Microsoft.DBforPostgreSQL/*` too. */
function includesRight(list: readonly string[] | null | undefined, right: string): boolean {
  return (list ?? []).some((each) => {
    const pattern = each.replace(/[^\w*]/g, '\\$&').replaceAll('*', '.*');
    return new RegExp(`^${pattern}$`, 'i').test(right);
  });
}
