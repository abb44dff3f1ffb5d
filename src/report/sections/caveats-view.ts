import type { Report } from '../../model/report.ts';
import type { Item, Section } from '../view/section.ts';

type Caveat = Report['caveats'][number];

/** Paths with a caveat in every run of this kind, which decides nothing; the JSON report has them. */
const CONSTANT: ReadonlySet<string> = new Set([
  'clone.uniqueBytes',
  'statements[].walBytes',
  'statements[].rewrote',
  'command.statements[].walBytes',
  'command.statements[].rewrote',
  'data.walBytes',
  'queries',
  'forecast.disk.freeBytes',
]);
/** The same of a dump: it has no traffic, and is thrown away with its server. */
const CONSTANT_OF_DUMPS: ReadonlySet<string> = new Set(['target.unchanged', 'target.changes', 'forecast']);

/** Subjects of caveats by their paths; a longer path has that of its beginning unless it is listed itself. */
const SUBJECTS: Readonly<Record<string, string>> = {
  version: 'the report',
  exitCode: 'the exit code',
  run: 'the run',
  target: 'the target',
  'target.unchanged': 'proof that the target is unchanged',
  'target.changes': 'changes of the target',
  clone: 'the clone',
  'clone.sizeBytes': 'the size of the clone',
  command: 'the command',
  'command.refused': 'refused statements',
  profile: 'the profile',
  statements: 'statements',
  'statements[].durationMs': 'times of statements',
  'statements[].locks': 'locks',
  'statements[].rows': 'rows of statements',
  'statements[].atProductionSize': "times at production's size",
  transactions: 'transactions',
  schema: 'the schema',
  'schema.rollbackSql': 'rollback SQL',
  'schema.unmodeled': 'objects that are not compared',
  data: 'rows and sizes',
  'data.lost': 'lost data',
  'data.overwritten': 'overwritten values',
  'data.tables': 'row counts',
  hazards: 'hazards',
  'hazards[].severity': 'severities',
  caveats: 'caveats',
  forecast: 'the forecast',
  'forecast.disk': 'disk space',
  queries: 'queries',
  checks: 'checks',
  rerun: 'the second run',
  down: 'the way back',
  atOnce: 'the runs at once',
  app: "the application's checks",
  load: 'the run under load',
  'load.rate': 'the rate of the load',
  proposal: 'the safer form',
  'proposal.safer.load': 'the safer form under load',
  script: 'the script',
  targetConnections: 'sessions on the target',
  verdict: 'the verdict',
  apply: 'the apply',
  swap: 'the swap',
  cleanup: 'the cleanup',
  pg_catalog: 'the catalogue',
  modes: 'modes of pg_upgrade',
  'modes[].downtimeMs': 'how long users wait',
  obstacles: 'obstacles',
  application: 'the application',
};

/** The subject of a caveat, without its path in the JSON report. */
export function caveatSubject(path: string): string | undefined {
  const parts = path.split('.');
  for (let count = parts.length; count > 0; count--) {
    const beginning = parts.slice(0, count).join('.');
    const subject = SUBJECTS[beginning] ?? SUBJECTS[beginning.replace(/\[\]$/, '')];
    if (subject !== undefined) return subject;
  }
  return undefined;
}

/** Values that are estimates or were not measured, if that may change a decision. */
export function caveatsView({
  caveats,
  target,
}: Pick<Report, 'caveats'> & { readonly target: Pick<Report['target'], 'host' | 'origin'> }): Section[] {
  const shown = caveats.filter(
    ({ path }) => !CONSTANT.has(path) && !(target.origin === 'dump' && CONSTANT_OF_DUMPS.has(path)),
  );
  if (shown.length === 0) return [];
  return [
    {
      id: 'caveats',
      title: 'Caveats',
      folds: 'in-comment',
      importance: 2,
      blocks: [{ kind: 'items', items: caveatItems(shown) }],
    },
  ];
}

/** Caveats with the same reason share a line. */
function caveatItems(caveats: readonly Caveat[]): Item[] {
  const groups = new Map<string, { readonly caveat: Caveat; readonly subjects: Set<string> }>();
  for (const caveat of caveats) {
    const key = JSON.stringify([caveat.kind, caveat.reason]);
    const group = groups.get(key) ?? { caveat, subjects: new Set() };
    groups.set(key, group);
    group.subjects.add(caveatSubject(caveat.path) ?? caveat.path);
  }
  return [...groups.values()].map(({ caveat: { kind, reason }, subjects }) => {
    const what = kind === 'estimate' ? 'estimate' : 'not measured';
    const words = [...subjects].join(', ');
    return { text: `${words.charAt(0).toUpperCase()}${words.slice(1)} (${what}): ${reason}` };
  });
}
