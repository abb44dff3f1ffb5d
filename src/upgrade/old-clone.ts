import { majorOf } from '../clone/dump/destination.ts';
import { reachElsewhere } from '../clone/elsewhere.ts';
import type { CloneContext } from '../clone/method.ts';
import { loginAtService, orderClone } from '../clone/services/order-clone.ts';
import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import { measured } from '../measured.ts';
import type { Caveat } from '../model/report.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import { askOldVersion, type CopyLogins } from './ask-application.ts';
import { readInstalled } from './new-cluster.ts';
import { readRuleRows } from './obstacles/find-obstacles.ts';
import { type OldFacts, serverAt } from './old-cluster.ts';
import type { PreparedAtService } from './prepare-at-service.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/** The clone on the old version, and its answers. */
export type OldClone = Awaited<ReturnType<typeof makeOldClone>>;

/** Has the service make the clone, and asks it the questions of both versions. Leaves no session there. */
export async function makeOldClone(
  { scope }: Lifetime,
  { to }: UpgradePlan,
  prepared: PreparedAtService,
  schema: SchemaWatch,
) {
  const { context, service } = prepared;
  const started = performance.now();
  const ordered = await orderClone(service, context, scope);
  const settings = await loginAtService(service, context, ordered, scope);
  const { title } = service;
  const teller = {
    source: title,
    says: `${title} named`,
    afterwards: `the clone at ${title} is removed.`,
  };
  const { there } = await reachElsewhere(context, settings, teller);
  requireSameVersion(context.target, there, title);
  const durationMs = performance.now() - started;
  const caveats: Caveat[] = [];
  const server = serverAt(settings, context);
  const databases = await readDatabases(context, settings, caveats);
  const ruled = await readRuleRows(server, { databases }, { from: majorOf(context.target), to });
  const logins: CopyLogins = { schema: settings, checks: { connect: settings, sharesRoles: false } };
  const answers = await askOldVersion(prepared, logins, schema);
  const installed = await withSession(server.enter(settings.database), readInstalled);
  return {
    ordered,
    settings,
    durationMs,
    databases,
    answers,
    installed,
    rows: ruled.rows,
    caveats: [...caveats, ...ruled.caveats],
  };
}

/** @throws SafemigrateError `CLONE` if the clone is of another major version than the target: then it is one of another server. */
function requireSameVersion(target: Target, there: Target, title: string): void {
  if (majorOf(there) === majorOf(target)) return;
  throw new SafemigrateError(
    'CLONE',
    `The clone at ${title} is PostgreSQL ${there.server.version}, and the target is PostgreSQL ${target.server.version}: it is not a clone of the target.`,
    {
      hint: 'SAFEMIGRATE_CLONE_OF names the source. The clone was not upgraded and is removed, and the target was not touched.',
    },
  );
}

/** Databases that a service has for itself, and that its users cannot enter. */
const OF_SERVICES = ['rdsadmin'];

const DATABASES = `
SELECT datname::text AS name, has_database_privilege(oid, 'CONNECT') AS may,
       datallowconn AND datconnlimit <> -2 AND pg_encoding_to_char(encoding) <> 'MULE_INTERNAL' AS open,
       CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid)::text END AS bytes
  FROM pg_database WHERE datname <> ALL ($1) ORDER BY 1`;

/** Lists the databases, and finds out which of them can be entered. */
async function readDatabases(
  context: CloneContext,
  settings: ConnectionSettings,
  caveats: Caveat[],
): Promise<OldFacts['databases']> {
  const server = serverAt(settings, context);
  const rows = await withSession(server.enter(settings.database), (session) =>
    session.query<{ name: string; may: boolean; open: boolean; bytes: string | null }>(DATABASES, [
      OF_SERVICES,
    ]),
  );
  const found: OldFacts['databases'][number][] = [];
  for (const { name, may, open, bytes } of rows) {
    const enter = async () => {
      if (!may) throw new SafemigrateError('PRIVILEGE', `the role may not enter the database ${name}`);
      await (await server.enter(name)).close();
      return true;
    };
    const entered = open ? await measured(caveats, 'obstacles', enter) : false;
    found.push({ name, open: entered ?? false, sizeBytes: Number(bytes ?? 0) });
  }
  return found;
}
