import { listed } from '../../format.ts';
import type { PublishedChange } from '../../model/effect-facts.ts';
import { bare, displayName, lastPart } from '../../postgres/sql/quote.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';
import { milder, type Severity } from '../severity.ts';
import { statementOfDrop } from './named-objects.ts';
import { ofKind } from './redefined.ts';

/** Obstacles for subscribers of a publication and other readers of logical slots. */
export const REPLICATION: readonly HazardRecord[] = [
  {
    code: 'PUBLICATION_AFFECTED',
    title: 'a publication is dropped or sends something else, or a table leaves it',
    condition:
      'A publication that existed before is dropped, no longer sends a kind of change, sends fewer rows of a table (WHERE), or sends changes of partitions under another name (publish_via_partition_root); or a table leaves one: by ALTER PUBLICATION, or because it is dropped, also if it is made again under its name. A notice if the target has no logical replication slot, but for partitions, and for a table that stays and leaves a publication that stays.',
    effect:
      'Subscribers and CDC connectors no longer get its changes, without an error; a table that is made again has to be added, and copied again. A subscriber without a table of the other name stops.',
    safer:
      'Change the subscribers first; ALTER PUBLICATION … ADD TABLE in the transaction that makes a table again, then ALTER SUBSCRIPTION … REFRESH PUBLICATION (https://www.postgresql.org/docs/current/logical-replication-publication.html).',
    find: (context) => [
      ...sentNoMore(context),
      ...sentUnderOtherNames(context),
      ...(context.facts.schema?.changes ?? [])
        .filter(({ verb, kind, sql }) => verb === 'drop' && kind === 'publication' && !/ SCHEMA /.test(sql))
        .filter(({ object }) => !context.changed('create', object))
        .map(({ object }): Finding => {
          const [publication = '', table] = object.split(': ');
          return {
            statement:
              table === undefined
                ? statementOfDrop(context, 'publication', publication)
                : leaving(context, publication, table),
            relation: table ?? null,
            ...readers(context, 'warning'),
            // A publication that stays has subscribers, whose slots may be on another server than the rehearsed one.
            ...(table !== undefined && !context.changed('drop', table) && { severity: 'warning' as const }),
            message:
              table === undefined
                ? `drops the publication ${publication}`
                : `${table} leaves the publication ${publication}${context.changed('create', table) ? ': the new table of that name is not in it' : ''}`,
            advice:
              table !== undefined && context.changed('create', table)
                ? `In the transaction that makes the table: ALTER PUBLICATION ${publication} ADD TABLE ${table};`
                : 'Change the subscribers first, and drop their subscriptions or tables.',
          };
        }),
    ],
  },
  {
    code: 'SUBSCRIBER_STOPS',
    title: 'a subscriber of the table must be changed first',
    condition:
      'A published table gets a column that its publication sends, or it or a column of it is renamed; a column of another type is a notice. A notice, too, if the target has no logical replication slot.',
    effect:
      'DDL is not replicated: a subscriber fails with the next change of a row ("missing replicated column", "target relation does not exist"), tries again for ever, and the slot keeps WAL until the disk is full.',
    safer:
      'Add the column on the subscriber first; keep names (https://www.postgresql.org/docs/current/logical-replication-restrictions.html).',
    find: (context) =>
      context.facts.catalogue.effects.published.map((change): Finding => {
        const { what, relation, column, publications = [] } = change;
        const subject = column === null ? relation : `${relation}.${column}`;
        const words = {
          'column added': `the new column ${subject} is sent to subscribers, which must have it`,
          'column renamed': `the column ${subject} has a new name, which subscribers must have`,
          'column retyped': `the column ${subject} has another type, whose values subscribers must accept`,
          'table renamed': `the table ${subject} has a new name, which subscribers must have`,
        }[what];
        const { severity, evidence } = readers(context, what === 'column retyped' ? 'notice' : 'error');
        return {
          statement: changing(context, change),
          relation,
          severity,
          message: words,
          evidence: `published by ${listed(publications)}; ${evidence}`,
          advice:
            what === 'column added'
              ? `On each subscriber first: ALTER TABLE ${relation} ADD COLUMN ${column} …;`
              : 'Make the same change on each subscriber in the same moment, with the subscription disabled.',
        };
      }),
  },
];

/** Changes of existing rows that an existing publication no longer sends. */
function sentNoMore(context: HazardContext): Finding[] {
  const altering =
    context.facts.statements.find(({ tag, error }) => tag === 'ALTER PUBLICATION' && !error)?.index ?? null;
  const sent = ofKind(context, 'sent').filter(
    ({ relation }) => !context.changed('drop', displayName(relation)),
  );
  const kinds = [...new Set(sent.map(({ relation }) => relation))].map((publication) => ({
    relation: null,
    message: `the publication ${displayName(publication)} no longer sends ${listed(sent.filter(({ relation }) => relation === publication).map(({ name }) => name))}`,
  }));
  const rows = ofKind(context, 'filter').map(({ relation, name, after }) => ({
    relation,
    message: `the publication ${displayName(name)} sends only those rows of ${relation} WHERE ${after}`,
  }));
  return [...kinds, ...rows].map((found) => ({
    ...found,
    statement: altering,
    ...readers(context, 'warning'),
    advice: 'Make sure that no subscriber needs the changes that are left out: they cannot be sent later.',
  }));
}

/** Publications that exchange the names of partitions for that of their table, or the other way round. */
function sentUnderOtherNames(context: HazardContext): Finding[] {
  return ofKind(context, 'partitions sent').map(({ relation: publication, before, after }) => ({
    statement: context.facts.statements.findLast(isAltering(publication))?.index ?? null,
    relation: null,
    ...readers(context, 'warning'),
    // It has subscribers, whose slots may be on another server than the rehearsed one.
    severity: 'warning',
    message: `the publication ${displayName(publication)} sends changes of partitions under the name of ${after} from now on, and not of ${before}`,
    advice:
      'First make tables of those names on each subscriber, and right after the change ALTER SUBSCRIPTION … REFRESH PUBLICATION.',
  }));
}

/** @param publication without quotes. */
const isAltering =
  (publication: string) =>
  ({ tag, error, sql }: HazardContext['facts']['statements'][number]) =>
    tag === 'ALTER PUBLICATION' && error === null && isNamed(sql, publication);

/** @param severity if somebody reads: if it is not known, it is milder. */
function readers({ facts }: HazardContext, severity: Severity): { severity: Severity; evidence: string } {
  const { logicalSlots } = facts;
  if (!logicalSlots) return { severity: milder(severity), evidence: 'it is not known who subscribes' };
  return logicalSlots.length === 0
    ? { severity: 'notice', evidence: 'the target has no logical replication slot' }
    : { severity, evidence: `logical slots of the target: ${listed(logicalSlots)}` };
}

/** The statement that takes a table out of a publication, or drops the table. */
function leaving(context: HazardContext, publication: string, table: string): number | null {
  const altering = context.facts.statements.filter(isAltering(bare(publication)));
  const named = altering.find(({ sql }) => isNamed(sql, bare(lastPart(table))));
  if (named || context.changed('drop', table))
    return named?.index ?? statementOfDrop(context, 'table', table);
  // SET TABLE names only those that stay.
  return altering.find(({ sql }) => /\bSET\s+TABLE\b/i.test(sql))?.index ?? null;
}

function changing(context: HazardContext, { what, relation, column }: PublishedChange): number | null {
  const found =
    what === 'column added' || what === 'column retyped'
      ? context
          .actionsOf(what === 'column added' ? 'add column' : 'alter type')
          .find(
            ({ action, statement }) =>
              displayName(action.column) === column && context.resolve(action.table, statement) === relation,
          )
      : context
          .actionsOf('rename')
          .findLast(({ action }) => [column, lastPart(relation)].includes(displayName(action.to)));
  return found?.statement.index ?? null;
}

/** Code that acts beyond the database. */
export const BEYOND_DATABASE: readonly HazardRecord[] = [
  {
    code: 'ACTS_ON_SERVER',
    title: 'code acts on the whole server, and could not be stopped',
    condition:
      "The clone is in the target's server and has an event trigger, or a function, view or trigger made in a way that safemigrate did not see, that runs a function which acts beyond its database: pg_terminate_backend, pg_drop_replication_slot, pg_reload_conf, dblink, and the like.",
    effect:
      "It may have run during the rehearsal: then it acted on the target's server, its sessions, slots, settings or files.",
    safer:
      'Rehearse on a clone in a server of its own (--clone cluster, --clone-to), and keep such calls out of migrations.',
    find: ({ facts: { catalogue } }) =>
      catalogue.actsOnServer.map(({ object, runs, why }) => ({
        statement: null,
        relation: null,
        severity: 'error',
        message: `${object} runs ${runs}, and safemigrate could not see whether it was used`,
        evidence: why,
        advice:
          "Look at the target's sessions, replication slots and settings, and rehearse with --clone cluster, where it can do no harm.",
      })),
  },
];
