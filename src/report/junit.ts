import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { watchedWords } from './isolation-phrases.ts';
import { sizesWords, unprovedWords } from './phrases.ts';
import { type Place, placeOf, placeWords } from './place.ts';
import { atOnceWords } from './sections/checks-view.ts';
import { modeName, upgradeSummary, wayBackWords } from './sections/upgrade-view.ts';
import { ADVICE, EVIDENCE } from './view/section.ts';
import { visible } from './visible.ts';

/** A test case in JUnit's words. */
interface JunitCase {
  readonly name: string;
  readonly seconds: number;
  readonly place?: Place | undefined;
  /** The reason that a CI system shows; undefined if the case passed. */
  readonly failure?: string;
  /** Text worth reading although the case passed. */
  readonly output?: string;
}

/** Renders the report as JUnit XML: the verdict, each hazard and each check is a test case. */
export function renderJunit(report: Report): string {
  const suites = [
    { name: 'rehearsal', cases: verdictCases(report) },
    { name: 'apply', cases: applyCases(report) },
    { name: 'swap', cases: swapCases(report) },
    { name: 'hazards', cases: hazardCases(report) },
    { name: 'checks', cases: checkCases(report) },
  ];
  return junitDocument(suites, report.run.startedAt);
}

/** Renders the report of an upgrade as JUnit XML: the verdict, each mode and each obstacle is a test case. */
export function renderUpgradeJunit(report: UpgradeReport): string {
  const { verdict, modes, obstacles, to, run } = report;
  const name = `upgrade to PostgreSQL ${to.major}`;
  const summary: JunitCase = verdict.pass
    ? { name, seconds: 0, output: upgradeSummary(report) }
    : { name, seconds: 0, failure: verdict.reasons.join('\n') };
  const tried = modes.map((each): JunitCase => {
    const { outcome, reason, downtimeMs } = each;
    const named = { name: modeName(each, report), seconds: (downtimeMs ?? 0) / 1000 };
    if (outcome === 'failed') return { ...named, failure: reason ?? 'it failed' };
    return { ...named, output: reason ?? `way back: ${wayBackWords(each)}` };
  });
  const found = obstacles.map(({ code, severity, message, objects, remedy, sql }): JunitCase => {
    const text = [message, ...objects.map((object) => `- ${object}`), `${ADVICE}: ${remedy}`, ...sql].join(
      '\n',
    );
    return { name: code, seconds: 0, ...(severity === 'error' ? { failure: text } : { output: text }) };
  });
  return junitDocument(
    [
      { name: 'upgrade', cases: [summary] },
      { name: 'modes', cases: tried },
      { name: 'obstacles', cases: found },
    ],
    run.startedAt,
  );
}

/** Writes suites as one document, without those that have no case. @param startedAt ISO 8601. */
function junitDocument(
  given: readonly { readonly name: string; readonly cases: readonly JunitCase[] }[],
  startedAt: string,
): string {
  const suites = given.filter(({ cases }) => cases.length > 0);
  const all = suites.flatMap(({ cases }) => cases);
  const lines = suites.flatMap(({ name, cases }) => [
    `  <testsuite name="safemigrate ${name}" ${counts(cases)} timestamp="${startedAt}">`,
    ...cases.flatMap((one) => caseLines(one, `safemigrate.${name}`)),
    '  </testsuite>',
  ]);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts(all)}>`,
    ...lines,
    '</testsuites>',
    '',
  ].join('\n');
}

/** A line end within one would begin another. */
function linesOf(texts: readonly string[]): string {
  return texts.map(visible).join('\n');
}

function counts(cases: readonly JunitCase[]): string {
  const failures = cases.filter(({ failure }) => failure !== undefined).length;
  const seconds = cases.reduce((sum, one) => sum + one.seconds, 0);
  return `tests="${cases.length}" failures="${failures}" errors="0" time="${seconds.toFixed(3)}"`;
}

function caseLines({ name, seconds, place, failure, output }: JunitCase, className: string): string[] {
  const open = `    <testcase classname="${className}" name="${xmlText(visible(name))}"${placeAttributes(place)} time="${seconds.toFixed(3)}"`;
  if (failure !== undefined) {
    const [first = ''] = failure.split('\n');
    return [
      `${open}>`,
      `      <failure message="${xmlText(first)}">${xmlText(failure)}</failure>`,
      '    </testcase>',
    ];
  }
  if (output !== undefined)
    return [`${open}>`, `      <system-out>${xmlText(output)}</system-out>`, '    </testcase>'];
  return [`${open}/>`];
}

function placeAttributes(place: Place | undefined): string {
  if (place === undefined) return '';
  const line = place.line === null ? '' : ` line="${place.line}"`;
  return ` file="${xmlText(visible(place.file))}"${line}`;
}

function applyCases({ apply, target }: Report): JunitCase[] {
  if (apply === null) return [];
  const { outcome, reasons, command } = apply;
  const name = `the command on ${target.database}`;
  const seconds = (command?.durationMs ?? 0) / 1000;
  return [{ name, seconds, ...(outcome === 'applied' ? {} : { failure: linesOf([outcome, ...reasons]) }) }];
}

function swapCases({ swap, target }: Report): JunitCase[] {
  if (swap === null) return [];
  const { outcome, reasons, stallMs } = swap;
  const name = `the migrated clone swapped in for ${target.database}`;
  const seconds = (stallMs ?? 0) / 1000;
  return [{ name, seconds, ...(outcome === 'swapped' ? {} : { failure: linesOf([outcome, ...reasons]) }) }];
}

function verdictCases(report: Report): JunitCase[] {
  const { verdict, command } = report;
  const name = command.argv.join(' ');
  const seconds = command.durationMs / 1000;
  const unproved = unprovedWords(report);
  const watched = watchedWords(report);
  const sizes = sizesWords(report);
  const note = [
    ...(unproved === undefined ? [] : [`Could not verify that the target is unchanged: ${unproved}`]),
    ...(watched === undefined ? [] : [watched]),
    ...(sizes === undefined ? [] : [sizes]),
  ];
  if (!verdict.pass)
    return [{ name, seconds, failure: linesOf([...verdict.reasons, ...note]) || 'it did not pass' }];
  return [{ name, seconds, ...(note.length === 0 ? {} : { output: note.join('\n') }) }];
}

function hazardCases(report: Report): JunitCase[] {
  return report.hazards.map(({ code, severity, relation, statement, message, evidence, advice, allowed }) => {
    const place = placeOf(report, statement);
    const at = place && `At: ${placeWords(place)}`;
    const text = [message, at, evidence && `${EVIDENCE}: ${evidence}`, advice && `${ADVICE}: ${advice}`]
      .filter(Boolean)
      .join('\n');
    const ran = report.statements.find(({ index }) => index === statement);
    const name = `${code}${relation === null ? '' : ` on ${relation}`}${statement === null ? '' : ` (statement ${statement})`}`;
    const seconds = (ran?.durationMs ?? 0) / 1000;
    return severity === 'error' && !allowed
      ? { name, seconds, place, failure: text }
      : { name, seconds, place, output: text };
  });
}

function checkCases({ checks, queries, app = [], atOnce, rerun, down }: Report): JunitCase[] {
  const further = (name: string, run: Report['rerun']): JunitCase[] => {
    if (!run) return [];
    const seconds = run.durationMs / 1000;
    const why = [...run.differences, ...run.dataDifferences].map(({ what }) => what);
    return [run.passed ? { name, seconds } : { name, seconds, failure: linesOf(why) || 'it failed' }];
  };
  return [
    ...checks.map(({ name, passed, error, missing, added }): JunitCase => {
      const why = error
        ? [`${error.message} (SQLSTATE ${error.sqlstate})`]
        : [...missing.map((row) => `gone: ${row}`), ...added.map((row) => `new: ${row}`)];
      return passed ? { name, seconds: 0 } : { name, seconds: 0, failure: linesOf(why) || 'it failed' };
    }),
    ...(queries?.broken ?? []).map(({ sql, error }) => ({
      name: `query ${sql.slice(0, 200)}`,
      seconds: 0,
      failure: `${error.message} (SQLSTATE ${error.sqlstate})`,
    })),
    ...(atOnce
      ? [
          {
            name: 'safe to start several times at once',
            seconds: 0,
            ...(atOnce.passed ? {} : { failure: linesOf(atOnceWords(atOnce)) }),
          },
        ]
      : []),
    ...app.map(({ release, command, result, after, failed }): JunitCase => {
      const why = failed.map(({ sqlstate, message, sql }) => `${message} (SQLSTATE ${sqlstate}): ${sql}`);
      const failure = linesOf([`${release} release: ${result}`, ...why]);
      const one = { name: `${command} of the ${release} release`, seconds: after.durationMs / 1000 };
      return ['breaks', 'needs migration'].includes(result) ? { ...one, failure } : one;
    }),
    ...further('safe to run twice', rerun),
    ...further('the down migration works', down),
  ];
}

/** Escapes text for the content or an attribute of an XML element; characters that XML forbids are shown as escapes. */
function xmlText(text: string): string {
  return text
    .split('\n')
    .map((line) => visible(line.replaceAll('\t', '    ')))
    .join('\n')
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};
