import { formatCount, plural } from '../../format.ts';
import type { AppCheck, AppRun, Report } from '../../model/report.ts';
import { commandWords } from '../phrases.ts';
import { type Item, type Section, sql } from '../view/section.ts';

/** The application's own checks, with the migration and without it. */
export function appView({ app = [] }: Pick<Report, 'app'>): Section[] {
  if (app.length === 0) return [];
  const works = app.every(({ result }) => result === 'works');
  return [
    {
      id: 'application',
      title: 'Application',
      summary: floorWords(app),
      folds: works ? 'in-comment' : 'never',
      importance: 8,
      blocks: [
        {
          kind: 'table',
          columns: [
            { title: 'release' },
            { title: 'checks' },
            { title: 'before the migration' },
            { title: 'after it' },
          ],
          rows: app.map(({ release, command, before, after }) => [
            release,
            [sql(command)],
            before === null ? 'not tried' : runWords(before),
            runWords(after),
          ]),
        },
        { kind: 'items', items: app.flatMap(failureItems), listed: 5, more: 'failed statements' },
      ],
    },
  ];
}

const WORDS: Readonly<Record<AppCheck['result'], string>> = {
  breaks: 'works before the migration only',
  'needs migration': 'works after the migration only',
  'fails either way': 'fails without the migration too',
  unsteady: 'fails now and then',
  works: 'works',
};
/** The first of them that one of a release's checks has is said of the release. */
const ORDER = Object.keys(WORDS) as AppCheck['result'][];

/** Says which release works with which schema. */
export function floorWords(app: readonly AppCheck[]): string {
  const releases = (['old', 'new'] as const).flatMap((release) => {
    const own = app.filter((check) => check.release === release);
    const result = ORDER.find((each) => own.some((check) => check.result === each));
    if (result === undefined) return [];
    const both = own.every(({ before }) => before !== null)
      ? ' before the migration and after it'
      : ' after the migration';
    return [`the ${release} release ${WORDS[result]}${result === 'works' ? both : ''}`];
  });
  return releases.join('; ');
}

function runWords(run: AppRun): string {
  return `${commandWords(run)}, ${plural(run.statements, 'statement')}`;
}

function failureItems({ failed, refused }: AppCheck): Item[] {
  return [
    ...failed.map(
      ({ sqlstate, message, sql: text, count }): Item => ({
        mark: 'bad',
        text: [`${formatCount(count)} × ${message} (SQLSTATE ${sqlstate}): `, sql(text)],
      }),
    ),
    ...refused.map(({ what, why }): Item => ({ text: `${what} was not run: ${why}` })),
  ];
}
