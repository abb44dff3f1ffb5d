import { formatCount } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import {
  AS_TEXT,
  type Item,
  type ItemList,
  type Medium,
  ON_PAGES,
  type Section,
  sql,
} from '../view/section.ts';

type Caveat = Report['caveats'][number];

/** Paths with a caveat in every run of this kind, which says nothing about this run; a page and the JSON report have them. */
const CONSTANT = new Set([
  'clone.uniqueBytes',
  'statements[].walBytes',
  'statements[].rewrote',
  'command.statements[].walBytes',
  'command.statements[].rewrote',
  'data.walBytes',
  'queries',
  'forecast.disk.freeBytes',
]);
const PATHS_AS_TEXT = 3;

/** Values that are estimates or were not measured. */
export function caveatsView({ caveats }: Pick<Report, 'caveats'>): Section[] {
  if (caveats.length === 0) return [];
  const long = caveats.filter(({ path }) => !CONSTANT.has(path));
  const list = (shown: readonly Caveat[], shownIn: readonly Medium[], most?: number): ItemList => ({
    kind: 'items',
    items: caveatItems(shown, most),
    shownIn,
  });
  return [
    {
      id: 'caveats',
      title: 'Caveats',
      folds: 'in-comment',
      importance: 2,
      blocks: [list(long, AS_TEXT, PATHS_AS_TEXT), list(caveats, ON_PAGES)],
    },
  ];
}

/** Paths with the same reason share a line. */
function caveatItems(caveats: readonly Caveat[], most = caveats.length): Item[] {
  const groups = new Map<string, Caveat & { readonly paths: string[] }>();
  for (const caveat of caveats) {
    const key = JSON.stringify([caveat.kind, caveat.reason]);
    const group = groups.get(key);
    if (group) group.paths.push(caveat.path);
    else groups.set(key, { ...caveat, paths: [caveat.path] });
  }
  return [...groups.values()].map(({ kind, reason, paths }) => {
    const what = kind === 'estimate' ? 'estimate' : 'not measured';
    const named = paths.slice(0, most).flatMap((path, at) => [...(at === 0 ? [] : [', ']), sql(path)]);
    const others = paths.length > most ? `, and ${formatCount(paths.length - most)} more` : '';
    return { text: [...named, `${others} (${what}): ${reason}`] };
  });
}
