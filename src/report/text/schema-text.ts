import { formatCount, plural } from '../../format.ts';
import type { Report, SchemaChange, SchemaSection } from '../../model/report.ts';
import { losingChanges } from '../phrases.ts';
import { layoutTable, marks, type TextRow, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 15;
const LISTED_RENAMES = 8;
const LISTED_ASIDES = 5;
const SIGNS: Record<SchemaChange['verb'], string> = {
  create: '+',
  alter: '~',
  drop: '-',
  rename: '~',
  grant: '+',
  revoke: '-',
  comment: '~',
};

export function schemaText(report: Report, style: TextStyle): string[] {
  const { schema } = report;
  const losing = losingChanges(report);
  if (schema === null) return heading(style, 'Schema', 'not compared');
  // A rename stands in a line of its own, with both names.
  const listed = schema.changes.filter(
    ({ verb, object }) => verb !== 'rename' || !schema.renames.some(({ to }) => to === object),
  );
  const shown = mostTelling(listed);
  const hidden = listed.filter((change) => !shown.includes(change));
  return [
    ...heading(style, 'Schema', summary(schema, losing)),
    ...layoutTable(
      style,
      shown.map((change) => changeRow(change, losing)),
    ),
    ...andMore(style, hidden.length, hiddenLoss(hidden, losing)),
    ...asides(schema, style),
  ];
}

/** Keeps the destructive changes if the list has to be cut. */
function mostTelling(changes: SchemaChange[]): SchemaChange[] {
  const weight = (change: SchemaChange) => (change.dataLoss ? 0 : change.verb === 'drop' ? 1 : 2);
  if (changes.length <= LISTED) return changes;
  return changes.toSorted((one, other) => weight(one) - weight(other)).slice(0, LISTED);
}

type Losing = ReturnType<typeof losingChanges>;

function hiddenLoss(hidden: SchemaChange[], { certain, possible }: Losing): string {
  const losing = hidden.filter((change) => certain.includes(change)).length;
  const perhaps = hidden.filter((change) => possible.includes(change)).length;
  if (losing > 0) return `, ${formatCount(losing)} of which ${losing === 1 ? 'loses' : 'lose'} data`;
  return perhaps > 0 ? `, ${formatCount(perhaps)} of which may lose data` : '';
}

function summary(schema: SchemaSection, { certain, possible }: Losing): string {
  const { changes } = schema;
  if (changes.length === 0 && schema.renames.length > 0) return plural(schema.renames.length, 'rename');
  if (changes.length === 0)
    return schema.before === schema.after ? 'no change' : 'no change found, although the fingerprints differ';
  const verbs = [...new Set(changes.map((change) => change.verb))].map(
    (verb) => `${formatCount(changes.filter((change) => change.verb === verb).length)} ${verb}`,
  );
  const losses = [
    ...(certain.length > 0 ? [`${plural(certain.length, 'LOSES', 'LOSE')} DATA`] : []),
    ...(possible.length > 0 ? [`${formatCount(possible.length)} MAY LOSE DATA`] : []),
  ];
  const loss = losses.length === 0 ? ', no data loss' : `; ${losses.join(', ')}`;
  const kinds = verbs.length > 1 || changes.length > LISTED ? ` (${verbs.join(', ')})` : '';
  return `${plural(changes.length, 'change')}${kinds}${loss}`;
}

function changeRow(change: SchemaChange, { possible }: Losing): TextRow {
  const destroys = change.dataLoss || change.verb === 'drop';
  return {
    columns: [
      tone(destroys ? 'bad' : 'plain', `${SIGNS[change.verb]} ${change.verb}`),
      change.kind,
      tone('strong', change.object),
      change.dataLoss ? tone('bad', possible.includes(change) ? 'MAY LOSE DATA' : 'LOSES DATA') : '',
    ],
  };
}

function asides(schema: SchemaSection, style: TextStyle): string[] {
  const renames = schema.renames.slice(0, LISTED_RENAMES);
  const { arrow } = marks(style);
  // What the command leaves behind is a hazard as well.
  const leftovers = style.verbose ? schema.leftovers : [];
  return [
    ...layoutTable(
      style,
      renames.map(({ kind, from, to }) => ({
        columns: ['> rename', kind, tone('strong', from), arrow, tone('strong', to)],
      })),
    ),
    ...andMore(style, schema.renames.length - renames.length),
    ...leftovers
      .slice(0, LISTED_ASIDES)
      .flatMap(({ kind, object, preexisting }) =>
        bullet(
          style,
          [
            tone(preexisting ? 'plain' : 'warning', preexisting ? 'leftover' : 'LEFTOVER'),
            `: ${kind} `,
            tone('strong', object),
            preexisting ? ' existed before the command' : ' was left behind by the command',
          ],
          '!',
        ),
      ),
    ...andMore(style, leftovers.length - LISTED_ASIDES),
    ...schema.unmodeled
      .slice(0, LISTED_ASIDES)
      .flatMap(({ kind, detail }) =>
        bullet(style, [tone('warning', 'not compared'), `: ${kind}, ${messageText(style, detail)}`], '?'),
      ),
    ...andMore(style, schema.unmodeled.length - LISTED_ASIDES),
  ];
}
