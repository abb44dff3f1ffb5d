import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { APPLY_SETTINGS, type Guardrails } from '../../src/apply/apply-settings.ts';
import { type GuardedWatch, startGuardedProxy } from '../../src/apply/guardrails/guarded-proxy.ts';
import { readTargetNames } from '../../src/apply/guardrails/target-names.ts';
import { inspectTarget } from '../../src/database/inspect.ts';
import type { SafemigrateError } from '../../src/errors.ts';
import { newRunId, type RunId } from '../../src/ownership/run-id.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import type { Observed } from '../../src/proxy/observed.ts';
import { rehearsedOf } from '../../src/rehearsal/receipts/rehearsed.ts';
import { Scope } from '../../src/scope.ts';
import { fillIn } from '../../src/settings.ts';

export interface Guarded {
  /** Leads through the proxy. */
  readonly url: string;
  readonly run: RunId;
  readonly wire: GuardedWatch;
  /** Where it listens for orders. */
  readonly env: NodeJS.ProcessEnv;
  readonly events: Observed[];
  readonly notices: string[];
  readonly aborts: SafemigrateError[];
}

/** What an apply puts between its command and the target, for the time of `use`. @param rehearsed texts that were. */
export async function withGuarded<T>(
  databaseUrl: string,
  rehearsed: readonly string[],
  { redact = false, ...settings }: Partial<Guardrails> & { readonly redact?: boolean },
  use: (guarded: Guarded) => Promise<T>,
): Promise<T> {
  const place = parseSettings(databaseUrl, readEnvironment({}, '/'));
  const target = await inspectTarget(place, 'the test');
  const inside = await openSession(place, { purpose: 'test' });
  const names = await readTargetNames(inside).finally(() => inside.close());
  const run = newRunId();
  const scope = new Scope();
  const state = await mkdtemp(path.join(tmpdir(), 'sm-'));
  const env = { XDG_STATE_HOME: state };
  const events: Observed[] = [];
  const notices: string[] = [];
  const aborts: SafemigrateError[] = [];
  try {
    const wire = await startGuardedProxy(scope, {
      target,
      run,
      logins: [place],
      rehearsed: rehearsedOf(rehearsed.map((sql, at) => ({ index: at + 1, sql, durationMs: 1 }))),
      names,
      guardrails: { ...fillIn(APPLY_SETTINGS.guardrails, {}), ...settings },
      redact,
      env,
      listen: '127.0.0.1',
      emit: (event) => {
        if (event.type === 'notice') notices.push(event.message);
      },
      connect: (purpose) => openSession(place, { purpose, run, database: 'postgres' }),
      observer: (event) => events.push(event),
      abort: (reason) => aborts.push(reason),
    });
    const [route] = wire.routes;
    const url = new URL(databaseUrl);
    url.hostname = route?.entry.hosts[0]?.host ?? '';
    url.port = String(route?.entry.hosts[0]?.port);
    url.password = encodeURIComponent(route?.entry.password ?? '');
    return await use({ url: url.href, run, wire, env, events, notices, aborts });
  } finally {
    await scope.release();
    // What the run left to do on its own may still write there.
    await rm(state, { recursive: true, maxRetries: 10 });
  }
}
