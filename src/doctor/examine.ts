import { assessMethods, type Considered } from '../clone/choose.ts';
import type { MethodId } from '../clone/clone-settings.ts';
import { examineCopyOnWrite } from '../clone/cluster/cow-facts.ts';
import { readDifferences } from '../clone/differences.ts';
import { fileSystemAdvice, inspectFileSystems } from '../clone/template/filesystem.ts';
import { trySandbox } from '../command/sandbox/try-sandbox.ts';
import { inspectTarget } from '../database/inspect.ts';
import { locateTarget } from '../database/locate.ts';
import { type Privilege, readPrivileges } from '../database/privileges.ts';
import type { Target } from '../database/target.ts';
import { readWalSpace } from '../database/wal-space.ts';
import { claimRun } from '../ownership/control-session.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment, userName } from '../postgres/connection/environment.ts';
import { otherServers } from '../rehearsal/clone-context.ts';
import { ignore, type RehearsalPlan } from '../rehearsal/plan.ts';
import { withScope } from '../rehearsal/with-scope.ts';
import { onlineObstacles } from '../swap/online/preconditions.ts';
import { swapObstacles } from '../swap/preflight.ts';
import { recogniseService } from './recognise-service.ts';

export type Diagnosis = Awaited<ReturnType<typeof diagnose>>;

/** Finds out what works for this target, what does not, and what would help. Changes nothing. */
export async function diagnose(plan: RehearsalPlan) {
  const { audit, clone } = plan;
  const { result } = await withScope(plan, async (scope, stop) => {
    const { signal } = stop;
    const environment = readEnvironment(plan.command.env, plan.command.folder);
    const located = locateTarget(plan.target, environment);
    const target = await inspectTarget(located.settings, located.source, { audit, signal });
    const claim = await claimRun(target, scope, { audit, signal });
    const context = {
      target,
      ...claim,
      ...(await otherServers(clone, target, claim.run, environment, { scope, stop }, audit)),
      options: clone,
      emit: ignore,
      signal,
      audit,
      fail: ignore,
    };
    const considered = await assessMethods(context, clone.method);
    const inTarget = await openSession(target.settings, { purpose: 'doctor', audit, signal, readOnly: true });
    try {
      const [first] = considered;
      const privileges = await readPrivileges(claim.control, target);
      const walSpace = await readWalSpace(claim.control, target, null);
      return {
        target,
        // The way for which rights alone are missing, if none works, as far as that can be known without them.
        recommended: first?.assessment.possible ? null : recommend(considered, privileges, target),
        // A run would take the first one, if it works.
        methods: considered.map(({ method: { id }, assessment }) => ({ id, assessment })),
        taken: first?.assessment.possible ? first.method.id : null,
        privileges,
        service: await recogniseService(target, inTarget, { ...clone, signal }),
        // Rights to functions are a database's own: those in this one count.
        maintenanceDatabase: claim.control.database,
        differences: await readDifferences(inTarget, target.server.versionNum),
        sandbox: await trySandbox(target.settings),
        swapObstacles: await swapObstacles(claim.control, target, false),
        onlineObstacles: await onlineObstacles(claim.control, target, false, walSpace),
        wayBackObstacles: await onlineObstacles(claim.control, target, true, walSpace),
        advice: fileSystemAdvice(
          (await inspectFileSystems(claim.control, target)).types,
          target.server.versionNum,
        ),
        copyOnWrite: await examineCopyOnWrite(context),
      };
    } finally {
      await inTarget.close();
    }
  });
  return result;
}

/** Chooses the way that needs the fewest changes among those that a statement would make possible. */
function recommend(
  considered: readonly Considered[],
  privileges: readonly Privilege[],
  { settings: { hosts } }: Target,
): MethodId | null {
  const waitsForRights = (id: MethodId) =>
    considered.some(
      ({ method, assessment }) =>
        method.id === id &&
        !assessment.possible &&
        /\b(GRANT|ALTER (ROLE|DATABASE)) /.test(assessment.enable ?? ''),
    ) && privileges.some(({ methods, held }) => !held && methods.some((needing) => needing === id));
  // Only with the rights can it be seen whether the server's files are here, and may be read.
  const readsFiles = process.getuid?.() === 0 || userName(process.env) === 'postgres';
  const isNear = hosts.every(({ host }) => host.startsWith('/') || NEAR.has(host));
  const order = ['cluster', 'dump', 'template', 'basebackup'] as const;
  return order.find((id) => waitsForRights(id) && (id !== 'cluster' || (readsFiles && isNear))) ?? null;
}

const NEAR = new Set(['localhost', '127.0.0.1', '::1']);

/** The diagnosis as `--format json` prints it: without the connection to the target. */
export function printedDiagnosis({ target, methods, ...rest }: Diagnosis) {
  const { server, role, database, source } = target;
  const [host] = target.settings.hosts;
  return {
    target: { host: host?.host, port: host?.port, source, server, role, database },
    methods: methods.map(({ id, assessment }) => ({ method: id, ...assessment })),
    ...rest,
  };
}
