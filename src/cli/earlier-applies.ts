import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type EarlierApply, telling } from '../hazards/apply-history.ts';
import type { Report } from '../model/report.ts';
import { stateFolder } from '../ownership/state-files.ts';

/** One line for each apply, for this user alone: times, and nothing of what the statements say. */
interface Line extends EarlierApply {
  readonly run: string;
  readonly target: string;
}

/** The last ones of a target: what is older says little of what it is now. */
const LOOKED_AT = 20;
/** Beyond, the older half of all lines goes. */
const KEPT = 400;

const file = () => path.join(stateFolder(), 'applied-times.jsonl');

type Place = Pick<Report['target'], 'host' | 'port' | 'database'>;

function keyOf({ host, port, database }: Place): string {
  return JSON.stringify([host, port, database]);
}

/** What was applied, for later forecasts. @throws the system's error. */
export async function keepTimes({ run, target, apply }: Report): Promise<void> {
  const times = telling(
    (apply?.comparedTimes ?? []).map(({ rehearsedMs, appliedMs }) => [rehearsedMs, appliedMs] as const),
  );
  if (apply?.outcome !== 'applied' || times.length === 0) return;
  await mkdir(path.dirname(file()), { recursive: true, mode: 0o700 });
  await appendFile(file(), `${JSON.stringify({ run: run.id, target: keyOf(target), times })}\n`, {
    mode: 0o600,
  });
  const lines = (await readFile(file(), 'utf8')).trimEnd().split('\n');
  if (lines.length > KEPT) await writeFile(file(), `${lines.slice(-KEPT / 2).join('\n')}\n`);
}

/** Of the last applies to this target. A forecast is worth making without them. */
export async function pastApplies(target: Place): Promise<EarlierApply[]> {
  const text = await readFile(file(), 'utf8').catch(() => '');
  const key = keyOf(target);
  // Lines of other targets may be many, and an apply of many statements has a long one.
  const written = JSON.stringify(key);
  return text
    .split('\n')
    .filter((line) => line.includes(written))
    .flatMap((line) => parsed(line) ?? [])
    .filter((line) => line.target === key)
    .slice(-LOOKED_AT);
}

/** A line that was cut off, when the disk was full, is left out. */
function parsed(line: string): Line | undefined {
  try {
    return JSON.parse(line) as Line;
  } catch {
    return undefined;
  }
}
