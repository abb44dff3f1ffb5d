import { formatBytes, formatDuration } from '../../format.ts';
import type { ActivityReader } from '../../observe/activity-reader.ts';
import type { Lag } from '../apply-settings.ts';
import { pause } from '../retry/backoff.ts';
import type { GuardrailEvents } from './guardrail-events.ts';

const LAG = `
SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), 0)::float8 AS bytes,
       coalesce(max(extract(epoch FROM replay_lag)), 0)::float8 * 1000 AS ms
  FROM pg_stat_replication WHERE state IN ('streaming', 'catchup')`;
const CHECK_EVERY_MS = 500;

interface Row {
  bytes: number;
  ms: number;
}

/** Waits until no standby's lag exceeds the limit. If the lag cannot be read, it does not wait. */
export async function awaitStandbys(
  activity: ActivityReader,
  limit: Lag,
  events: GuardrailEvents,
  signal: AbortSignal,
): Promise<void> {
  const begun = performance.now();
  for (let said = false; !signal.aborted; said = true) {
    const [lag] = (await activity.ask<Row>(LAG, [])) ?? [];
    if (!lag || !exceeds(lag, limit)) {
      if (said) events.lagged(performance.now() - begun);
      return;
    }
    if (!said)
      events.say(
        `a standby is ${formatBytes(lag.bytes)} and ${formatDuration(lag.ms)} behind: the next transaction waits for it (--limit lag)`,
      );
    await pause(CHECK_EVERY_MS, signal);
  }
}

function exceeds({ bytes, ms }: Row, limit: Lag): boolean {
  return 'bytes' in limit ? bytes > limit.bytes : ms > limit.durationMs;
}
