import type { Emit } from '../events.ts';
import { formatDuration } from '../format.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { Statement } from '../proxy/observed.ts';
import type { ActivitySample } from './sampler.ts';

const FIRST_AFTER_MS = 3_000;
const SHOWN_CHARACTERS = 70;

/**
 * Says of a statement that runs long what it is, how far it is and what it waits for: after three seconds, and again
 * each time that its running time has doubled, so that the command's own output is not drowned.
 */
export class SlowStatements {
  readonly #emit: Emit;
  readonly #nextAfterMs = new Map<Statement, number>();

  constructor(emit: Emit) {
    this.#emit = emit;
  }

  sample(sample: ActivitySample): void {
    const { statement, runningMs } = sample;
    const next = this.#nextAfterMs.get(statement) ?? FIRST_AFTER_MS;
    if (runningMs === null || runningMs < next) return;
    this.#nextAfterMs.set(statement, next * 2);
    this.#emit({ type: 'notice', message: describe(sample, runningMs) });
  }
}

function describe({ statement, wait, blockedBy, progress }: ActivitySample, runningMs: number): string {
  // Seen in logs that others read.
  const line = normalizeSql(statementWithoutSecrets(statement.sql));
  const sql = line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
  const parts = [`${sql} has been running for ${formatDuration(runningMs)}`];
  if (progress) {
    const percent = progress.of > 0 ? ` ${Math.floor((100 * progress.done) / progress.of)} %` : '';
    parts.push(`${progress.command}: ${progress.phase}${percent}`);
  }
  if (blockedBy.length > 0) parts.push(`waits for ${blockedBy.map((pid) => `pid ${pid}`).join(', ')}`);
  else if (wait) parts.push(`waits (${wait})`);
  return parts.join('; ');
}
