import * as z from 'zod/mini';
import type { ServiceCli } from './clone-service.ts';

const review = z.object({
  status: z.object({
    /** The server could not list all of them. */
    incomplete: z.optional(z.boolean()),
    resourceRules: z.array(
      z.object({
        verbs: z.array(z.string()),
        apiGroups: z.optional(z.array(z.string())),
        resources: z.optional(z.array(z.string())),
      }),
    ),
  }),
});

/** Rights without which a clone could not be made, or would stay: those of templates/kubernetes-cnpg.yaml. */
const NEEDED: readonly (readonly [group: string, resource: string, verbs: readonly string[]])[] = [
  ['postgresql.cnpg.io', 'clusters', ['get', 'list', 'create', 'delete']],
  ['postgresql.cnpg.io', 'backups', ['get', 'list', 'create', 'delete']],
  ['snapshot.storage.k8s.io', 'volumesnapshots', ['list', 'delete']],
  ['', 'persistentvolumeclaims', ['list']],
];

/** Asks Kubernetes which needed rights the login lacks in a namespace. @returns none if it does not know all of them. */
export async function missingRights(cli: ServiceCli, namespace: string): Promise<string[]> {
  const version = 'authorization.k8s.io/v1';
  const asked = { apiVersion: version, kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const call = ['create', '--raw', `/apis/${version}/selfsubjectrulesreviews`, '--filename', '-'];
  const { status } = await cli.json(call, review, { input: JSON.stringify(asked) });
  if (status.incomplete) return [];
  const has = (names: readonly string[] | undefined, name: string) =>
    names?.some((each) => each === '*' || each === name);
  const mayUse = (group: string, resource: string, verb: string) =>
    status.resourceRules.some(
      ({ verbs, apiGroups, resources }) =>
        has(verbs, verb) && has(apiGroups, group) && has(resources, resource),
    );
  return NEEDED.flatMap(([group, resource, verbs]) => {
    const lacking = verbs.filter((verb) => !mayUse(group, resource, verb));
    return lacking.length === 0 ? [] : [`${lacking.join(', ')} ${resource}`];
  });
}
