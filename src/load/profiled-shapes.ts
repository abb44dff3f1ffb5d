import type { ProfiledShapes } from '../model/profile-model.ts';
import { LOCK_MODES } from '../postgres/lock-modes.ts';
import type { RecordedTraffic } from './record-shapes.ts';

/** Returns recorded traffic as a profile holds it: with names, since OIDs are those of one server. */
export function shapesForProfile(recorded: RecordedTraffic): ProfiledShapes | null {
  const { shapes, names, windowMs, readings, clients, perSecond } = recorded;
  if (shapes.length === 0) return null;
  const nameOf = (oid: number) => names.get(oid) ?? String(oid);
  return {
    ...{ windowMs, readings, clients },
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

/**
 * Returns the traffic of a profile as if it had been recorded here.
 * @param exists whether the database has a relation of this name; locks of others are left out.
 */
export function trafficOfProfile(
  { kinds, windowMs, readings, clients, perSecond }: ProfiledShapes,
  exists: (relation: string) => boolean,
): RecordedTraffic {
  const all = [...new Set(kinds.flatMap(({ steps }) => steps.map(({ relation }) => relation)))];
  const names = new Map(all.filter(exists).map((name, index) => [index + 1, name]));
  const numbers = new Map([...names].map(([number, name]) => [name, number]));
  const shapes = kinds.map(({ steps, perSecond, holdMs, unordered }) => ({
    steps: steps.flatMap(({ relation, mode, rows }) => {
      const number = numbers.get(relation);
      const known = LOCK_MODES.find((each) => each === mode);
      return number === undefined || known === undefined ? [] : [{ relation: number, mode: known, rows }];
    }),
    perSecond,
    holdMs,
    unordered: unordered.flatMap(([one, other]): [number, number][] => {
      const [first, second] = [numbers.get(one), numbers.get(other)];
      return first === undefined || second === undefined ? [] : [[first, second]];
    }),
  }));
  return {
    shapes: shapes.filter(({ steps }) => steps.length > 0),
    ...{ names, windowMs, readings, clients, perSecond },
  };
}

/** To four digits: more say nothing. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
