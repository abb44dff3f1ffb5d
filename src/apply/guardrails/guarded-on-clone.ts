import { forOwnSessions } from '../../clone/own-sessions.ts';
import { ignore } from '../../rehearsal/plan.ts';
import { rehearsedOf } from '../../rehearsal/receipts/rehearsed.ts';
import { type OpenGuarded, openWay } from '../../rehearsal/run-on-clone.ts';
import type { Guardrails } from '../apply-settings.ts';
import { startGuardedProxy } from './guarded-proxy.ts';

/**
 * Makes what opens a command's way to a clone with the guardrails that its apply will have: its timeouts, retries of statements, and the
 * checks of whom it blocks. The command is run once, whatever --retries says.
 */
export function guardedOnClone(guardrails: Guardrails): OpenGuarded {
  return async (setup, { logins }, { statements, observer }) => {
    const { plan, context, clone, life } = setup;
    if (clone.isolation !== 'own-cluster')
      throw new Error(
        "guardrails are not tried on a clone in the target's server: they may end other sessions",
      );
    const { way, options } = await openWay(setup, logins);
    const { target, run, audit } = context;
    const { name } = target.database;
    const wire = await startGuardedProxy(life.scope, {
      target: {
        ...target,
        settings: forOwnSessions(clone, target),
        database: { ...target.database, oid: clone.oid },
      },
      run,
      audit,
      guardrails,
      observer,
      redact: plan.redact,
      listen: plan.proxy.listen,
      env: null,
      // The report says what they did, and nothing of it happens on the target.
      emit: ignore,
      logins: logins.logins,
      rehearsed: rehearsedOf(statements, [name, clone.database]),
      connect: clone.server.open,
      onClone: options,
      abort: (reason) => life.stop.now(reason),
    });
    return { ...way, wire, happened: () => wire.happened() };
  };
}
