import type { ProfiledShapes } from '../model/profile-model.ts';
import { LOCK_MODES } from '../postgres/lock-modes.ts';
import type { RecordedTraffic } from './record-shapes.ts';

/** Returns recorded traffic as a profile holds it: with names, since OIDs are those of one server. */
export function shapesForProfile(recorded: RecordedTraffic): ProfiledShapes | null {
  const { shapes, names, windowMs, readings, clients, perSecond } = recorded;
  if (shapes.length === 0) return null;
  const nameOf = (oid: number) => names.get(oid) ?? String(oid);
  return {
    windowMs,
    readings,
    clients,
    perSecond: rounded(perSecond),
    kinds: shapes.map(({ steps, perSecond, holdMs, unordered }) => ({
      steps: steps.map(({ relation, mode, rows }) => ({
        relation: nameOf(relation),
        mode,
        rows: rounded(rows),
      })),
      perSecond: rounded(perSecond),
      holdMs: rounded(holdMs),
      unordered: unordered.map(([one, other]): [string, string] => [nameOf(one), nameOf(other)]),
    })),
  };
}

/** Returns the traffic of a profile as if it had been recorded here. */
export function trafficOfProfile(profiled: ProfiledShapes): RecordedTraffic {
  const { kinds, windowMs, readings, clients, perSecond } = profiled;
  const all = [...new Set(kinds.flatMap(({ steps }) => steps.map(({ relation }) => relation)))];
  const names = new Map(all.map((name, index) => [index + 1, name]));
  const numberOf = (name: string) => all.indexOf(name) + 1;
  const shapes = kinds.map(({ steps, perSecond, holdMs, unordered }) => ({
    steps: steps.flatMap(({ relation, mode, rows }) => {
      const known = LOCK_MODES.find((each) => each === mode);
      return known === undefined ? [] : [{ relation: numberOf(relation), mode: known, rows }];
    }),
    perSecond,
    holdMs,
    unordered: unordered.map(([one, other]): [number, number] => [numberOf(one), numberOf(other)]),
  }));
  return { shapes, names, windowMs, readings, clients, perSecond, uncounted: null };
}

/** To four digits: more say nothing. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
