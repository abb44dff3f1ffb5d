import { listed } from '../../format.ts';
import { isBookkeeping } from '../../model/migration-tables.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { changeFinding, type Finding, sqlAdvice } from '../hazard-definition.ts';
import { weighBreakage, weighBySize, worst } from '../severity.ts';
import { creating } from './not-granted.ts';
import { ofKind } from './redefined.ts';
import { gained } from './widened-access.ts';

const QUERY_IT = "Query the table with the application's role, before and after.";

/** Finds changes to the rows that roles may see and write. */
export function rowsByPolicies(context: HazardContext): Finding[] {
  return [...policies(context), ...rowSecurity(context)];
}

function policies(context: HazardContext): Finding[] {
  const isReplaced = (object: string) => context.changed('drop', object) && context.changed('create', object);
  return (context.facts.schema?.changes ?? [])
    .filter(
      ({ kind, verb, object }) =>
        kind === 'policy' &&
        verb !== 'comment' &&
        !(verb === 'create' && isReplaced(object)) &&
        context.relation(withoutLastPart(object)),
    )
    .map(({ verb, object, sql }) => {
      const past = isReplaced(object)
        ? 'changed'
        : ({ create: 'created', drop: 'dropped' }[verb as string] ?? 'changed');
      const relation = withoutLastPart(object);
      const named = context.facts.statements.filter(
        ({ tag, error, sql }) => !error && / POLICY$/.test(tag ?? '') && sql.includes(bare(object)),
      );
      const statement =
        named.find(({ locks }) => locks?.some((lock) => lock.relation === relation)) ?? named[0];
      const message = `the policy ${object} is ${past}${limitOf(context, object)}`;
      const finding = changeFinding(context, statement?.index ?? null, relation, message, QUERY_IT);
      const others = verb === 'create' ? policiesOpened(context, object) : [];
      if (others.length > 0)
        return {
          ...finding,
          severity: 'warning' as const,
          message: `${message}, and opens rows that ${listed(others)} ${others.length === 1 ? 'keeps' : 'keep'} from its roles: permissive policies are combined with OR`,
          advice: sqlAdvice(
            'If it is to keep more rows from them, not fewer:',
            `CREATE POLICY ${lastPart(object)} ON ${relation} AS RESTRICTIVE …`,
          ),
        };
      const opening = openingOf(context, object);
      if (opening !== null)
        return {
          ...finding,
          severity: worst(['warning', weighBySize(context, relation)]),
          message: `${message}, and ${opening.words}`,
          advice: sqlAdvice(
            'If its roles are not to see or write all of them:',
            `ALTER POLICY ${lastPart(object)} ON ${relation} ${opening.remedy}`,
          ),
        };
      const isSame = past === 'changed' && !changeOf(context, 'policy meaning', object);
      // Without the policy rows vanish or appear; a new one may be for rows of new code, unless it takes rows away.
      return isSame || (verb === 'create' && !/ AS RESTRICTIVE\b/.test(sql))
        ? finding
        : { ...finding, severity: weighBySize(context, relation) };
    });
}

function changeOf(context: HazardContext, kind: 'policy' | 'policy meaning', object: string) {
  return ofKind(context, kind).find(({ relation, name }) => `${relation}.${displayName(name)}` === object);
}

/** A policy as it was and is now; null: it is another one, or was not there, or row security is off. */
function definitionsOf(context: HazardContext, object: string) {
  const found = changeOf(context, 'policy', object);
  return found ? { was: partsOf(found.before), is: partsOf(found.after) } : null;
}

function partsOf(text: string | null) {
  if (text === null) return null;
  const [mode = '', command = '', rows = '', written = '', roles = ''] = text.split('; ');
  return { mode, command, rows, written, roles: roles.split(', ') };
}

/** Says what a new restrictive policy takes away. */
function limitOf(context: HazardContext, object: string): string {
  const { was = null, is = null } = definitionsOf(context, object) ?? {};
  if (was !== null || is?.mode !== 'restrictive') return '';
  const roles = is.roles.includes('PUBLIC') ? 'all roles' : listed(is.roles.map((role) => displayName(role)));
  const isOfNewRows = is.command === 'a' || (is.rows === 'all' && is.command !== 'r');
  if ((isOfNewRows ? is.written : is.rows) === 'all') return '';
  const keeps = isOfNewRows
    ? `refuses rows of ${roles}`
    : ({ w: `keeps ${roles} from updating rows`, d: `keeps ${roles} from deleting rows` }[is.command] ??
      `keeps rows from ${roles}`);
  return `, and ${keeps} that other policies allow: restrictive policies are combined with AND`;
}

/** Says what a changed policy opens; null: nothing that is known. */
function openingOf(context: HazardContext, object: string): { words: string; remedy: string } | null {
  const { was = null, is = null } = definitionsOf(context, object) ?? {};
  if (was === null || is === null || was.mode !== is.mode) return null;
  const [rows, written] = [wider(was.rows, is.rows), wider(was.written, is.written)];
  if (rows !== null)
    return {
      words: `opens rows to its roles that it kept from them: its condition ${rows}`,
      remedy: 'USING (…)',
    };
  if (written !== null)
    return {
      words: `lets its roles write rows that it refused: its condition for new rows ${written}`,
      remedy: 'WITH CHECK (…)',
    };
  const isOpen = is.mode === 'permissive' && [is.rows, is.written].includes('all');
  return isOpen && is.roles.includes('PUBLIC') && !was.roles.includes('PUBLIC')
    ? { words: 'is for PUBLIC now: every role of the server, with a condition that is true', remedy: 'TO …' }
    : null;
}

function wider(was: string, is: string): string | null {
  if (is === 'all' && was !== 'all') return 'is true';
  return is === 'some' && was === 'asked' ? 'no longer asks for the user or session' : null;
}

/** Finds the policies from before the command that a new permissive one goes around: its condition asks for no user or session. */
function policiesOpened(context: HazardContext, object: string): string[] {
  const relation = withoutLastPart(object);
  const isEnabled = context
    .actionsOn('row security')
    .some((each) => each.relation === relation && each.action.to === 'enabled');
  const found = ofKind(context, 'wider policy').find(
    (each) => each.relation === relation && displayName(each.name) === lastPart(object),
  );
  const others = (isEnabled ? '' : (found?.after ?? '')).split(', ').filter((name) => name !== '');
  return others.filter((name) => !context.changed('create', `${relation}.${name}`));
}

function rowSecurity(context: HazardContext): Finding[] {
  return context
    .actionsOn('row security')
    .map(({ statement, relation, action }) =>
      changeFinding(
        context,
        statement.index,
        relation,
        `row-level security of ${relation} is ${action.to}${/forced/.test(action.to) ? ' on the owner of the table' : ''}`,
        QUERY_IT,
      ),
    )
    .map((finding) => ({ ...finding, severity: weighBreakage(context, finding.relation ?? '') }));
}

/** Finds new tables without row security, whose column the policies of other tables use to hide rows. */
export function tablesWithoutPolicies(context: HazardContext): Finding[] {
  const found = context.facts.catalogue.effects.unfiltered.filter(({ relation }) => !isBookkeeping(relation));
  return [...new Set(found.map(({ relation }) => relation))].flatMap((relation): Finding[] => {
    const [first] = found.filter((each) => each.relation === relation);
    if (!first) return [];
    const column = displayName(first.column);
    const same = found.filter((each) => each.relation === relation && each.column === first.column);
    const roles = listed(same.map(({ role }) => displayName(role)));
    return [
      {
        statement: creating(context, [relation]) ?? lastNaming(context, relation),
        relation,
        severity: 'warning',
        message: `${relation} shows all its rows to ${roles}: it has no row-level security, unlike ${listed(first.tables)}, whose policies use ${column}`,
        evidence: `policies by ${column} hold for ${roles} on ${first.tables.length} tables, and each other table with such a column that can be read has row-level security`,
        advice: sqlAdvice(
          'In the transaction that creates it:',
          `ALTER TABLE ${relation} ENABLE ROW LEVEL SECURITY`,
          `CREATE POLICY … ON ${relation} USING (${column} = …)`,
        ),
      },
    ];
  });
}

const USE = /^(SELECT|INSERT|UPDATE|DELETE) for (.*)$/s;

/** Finds views through which roles see or write rows that the policies of the table keep from them. */
export function viewsPastPolicies(context: HazardContext): Finding[] {
  const stored = new Set(context.changes('create', 'materialized view').map(({ object }) => object));
  return ofKind(context, 'past policies').flatMap(({ relation, name, before, after }): Finding[] => {
    const uses = gained(before, after).flatMap((use) => {
      const [, privilege = '', role = ''] = USE.exec(use) ?? [];
      return role === '' ? [] : [{ privilege, role: displayName(role) }];
    });
    if (uses.length === 0) return [];
    const rolesWith = (isAsked: (privilege: string) => boolean) =>
      [...new Set(uses.filter(({ privilege }) => isAsked(privilege)).map(({ role }) => role))].join(', ');
    const written = [...new Set(uses.map(({ privilege }) => privilege))].filter((each) => each !== 'SELECT');
    const readers = rolesWith((privilege) => privilege === 'SELECT');
    const writers = rolesWith((privilege) => privilege !== 'SELECT');
    const table = displayName(name);
    const isStored = stored.has(relation);
    return [
      {
        statement: lastNaming(context, relation) ?? lastNaming(context, table),
        relation: null,
        severity: 'warning',
        message:
          readers === ''
            ? `the view ${relation} lets ${writers} ${written.join(', ')} rows of ${table} past its row-level security`
            : `the view ${relation} shows rows of ${table} past its row-level security to ${readers}${writers === '' ? '' : `, and lets ${writers} ${written.join(', ')} them`}`,
        evidence: isStored
          ? 'a materialized view has no policies'
          : `its owner is not subject to the policies of the table, and the view ${writers === '' ? 'reads' : 'reads and writes'} as its owner`,
        advice: isStored
          ? sqlAdvice(
              'Let a view with a condition read it in their place:',
              `REVOKE SELECT ON ${relation} FROM ${readers}`,
            )
          : sqlAdvice(
              `From PostgreSQL 15 on, so that the policies hold for who ${writers === '' ? 'reads' : 'uses'} it:`,
              `ALTER VIEW ${relation} SET (security_invoker = true)`,
            ),
      },
    ];
  });
}
