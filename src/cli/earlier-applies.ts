import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type EarlierApply, telling } from '../hazards/apply-history.ts';
import type { Report } from '../model/report.ts';
import { stateFolder } from '../ownership/state-files.ts';

/** The file has a line for each apply, for this user alone: times, and no text of a statement. */
interface Line extends EarlierApply {
  readonly run: string;
  readonly target: string;
}

/** Applies of a target that count: older ones say little about it as it is now. */
const LOOKED_AT = 20;
/** If the file is larger, the older half of its lines is deleted. */
const KEPT = 400;

const file = () => path.join(stateFolder(), 'applied-times.jsonl');

type Place = Pick<Report['target'], 'host' | 'port' | 'database'>;

function keyOf({ host, port, database }: Place): string {
  return JSON.stringify([host, port, database]);
}

/** Records the times of an apply, for later forecasts. @throws the system's error. */
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

/** Reads the last applies to this target; none if that fails, since a forecast can do without them. */
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
