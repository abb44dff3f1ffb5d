import { majorOf } from '../clone/dump/destination.ts';
import type { CloneContext, Possible } from '../clone/method.ts';
import type { OrderedClone } from '../clone/services/order-clone.ts';
import type { ListedService } from '../clone/services/service-list.ts';
import { openAtService } from '../clone/services/service-method.ts';
import { SafemigrateError } from '../errors.ts';
import type { ApplicationSection, PostUpgradeCommand, UpgradePhase } from '../model/upgrade-model.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import { askNewVersion, compareUpgradedSchema, type OldAnswers } from './ask-application.ts';
import { readInstalled } from './new-cluster.ts';
import { type RuleRows, readRuleRows } from './obstacles/find-obstacles.ts';
import { type OldFacts, type RunningServer, serverAt } from './old-cluster.ts';
import { runPostUpgrade } from './post-upgrade-command.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';
import type { UpgradePlan } from './upgrade-plan.ts';
import { carriesStatistics, onNewVersion, phase } from './use-upgraded.ts';

/** Results from a clone that the service has upgraded. */
export interface UsedClone extends RuleRows {
  readonly phases: readonly UpgradePhase[];
  readonly command: PostUpgradeCommand | null;
  /** null if the command failed. */
  readonly application: Omit<ApplicationSection, 'mode'> | null;
  readonly installed: Awaited<ReturnType<typeof readInstalled>>;
}

interface Prepared extends Pick<PreparedUpgrade, 'command' | 'sandbox'> {
  readonly context: CloneContext;
  readonly service: ListedService;
  readonly assessment: Possible;
  readonly release: string;
}

interface UpgradedClone {
  readonly ordered: OrderedClone;
  readonly settings: ConnectionSettings;
  readonly databases: OldFacts['databases'];
  readonly answers: OldAnswers;
}

/** Makes statistics on the upgraded clone, runs the command that belongs to the upgrade, and repeats the questions. */
export async function useUpgradedClone(
  life: Lifetime,
  plan: UpgradePlan,
  prepared: Prepared,
  { ordered, settings, databases, answers }: UpgradedClone,
): Promise<UsedClone> {
  const { service, assessment, release } = prepared;
  const context = onNewVersion(prepared.context, { major: plan.to, version: release });
  const opened = await openAtService(service, context, ordered, settings, assessment, life.scope);
  const server = serverAt(settings, context);
  await requireVersion(server, plan.to, service.title);
  const caveats = [...opened.caveats];
  const schema = await compareUpgradedSchema(settings, answers, caveats);
  const statistics = await analyze(server, databases, plan.to);
  const clone = { ...opened, durationMs: 0 };
  const ran = await runPostUpgrade(life, plan, context, clone, prepared, answers.schema);
  const { command } = ran;
  caveats.push(...ran.caveats);
  const phases = [...statistics, ...(command === null ? [] : [phase('command', command.durationMs, true)])];
  const installed = await withSession(server.enter(settings.database), readInstalled);
  const none = { phases, command, installed, rows: new Map(), caveats };
  if (command !== null && command.exitCode !== 0) return { ...none, application: null };
  const login = { connect: settings, sharesRoles: false };
  const { queries, checks, caveats: unasked } = await askNewVersion(context, login, answers);
  const versions = { from: majorOf(prepared.context.target), to: plan.to };
  const { rows, caveats: unread } = await readRuleRows(server, { databases }, versions, true);
  const application = { queries, checks, ...schema };
  return { ...none, rows, application, caveats: [...caveats, ...unasked, ...unread] };
}

const VERSION = "SELECT current_setting('server_version') AS version";

/** @throws SafemigrateError `CLONE` if the server is not of the version that the service says. */
async function requireVersion(server: RunningServer, major: number, title: string): Promise<void> {
  const rows = await withSession(server.enter(server.connect.database), (session) =>
    session.query<{ version: string }>(VERSION),
  );
  const version = rows[0]?.version ?? '';
  if (Number.parseInt(version, 10) === major) return;
  throw new SafemigrateError(
    'CLONE',
    `${title} says that the clone was upgraded to PostgreSQL ${major}, and its server is PostgreSQL ${version}.`,
    { hint: 'The clone is removed. The target was not touched.' },
  );
}

/** Makes the planner's statistics in all databases, in the first stage of vacuumdb's and in full. A role analyzes only tables that it may analyze. */
async function analyze(
  server: RunningServer,
  databases: OldFacts['databases'],
  to: number,
): Promise<UpgradePhase[]> {
  const inEach = async (statements: readonly string[]): Promise<number> => {
    const started = performance.now();
    for (const { name, open } of databases)
      if (open)
        await withSession(server.enter(name), async (session) => {
          for (const statement of statements) await session.query(statement);
        });
    return performance.now() - started;
  };
  const first = carriesStatistics(to)
    ? []
    : [phase('first statistics', await inEach(['SET default_statistics_target = 1', 'ANALYZE']), true)];
  return [...first, phase('statistics', await inEach(['ANALYZE']), false)];
}
