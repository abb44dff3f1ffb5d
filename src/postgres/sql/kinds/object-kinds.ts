import type * as Tree from 'libpg-query';
import type { Action } from '../../../model/statement-actions.ts';
import { givesExternalAccess } from '../../external-extensions.ts';
import type { Reach, StatementKind, StatementTable } from '../statement-properties.ts';
import { nameOfParts, optionOf, stringOf, strings } from '../tree.ts';
import { reachOfLibrary, reachOfSets, setsAmong } from './cluster-objects.ts';

/** Makes a row of what most statements have that define objects of their database. */
export const defining = (name: string) => ({ name, effect: 'schema', reach: 'database' }) as const;

/** Statements that define types, functions, operators and their like. */
export const OBJECT_KINDS = {
  DefineStmt: defining('CREATE'),
  CompositeTypeStmt: defining('CREATE TYPE'),
  CreateEnumStmt: defining('CREATE TYPE'),
  CreateRangeStmt: defining('CREATE TYPE'),
  AlterTypeStmt: defining('ALTER TYPE'),
  AlterEnumStmt: {
    ...defining('ALTER TYPE'),
    actions: ({ typeName, oldVal: from, newVal: to }) =>
      from === undefined || to === undefined
        ? []
        : [{ does: 'rename value', type: nameOfParts(typeName), from, to }],
  },
  CreateDomainStmt: defining('CREATE DOMAIN'),
  AlterDomainStmt: { ...defining('ALTER DOMAIN'), actions: domainAlteration },
  AlterCollationStmt: defining('ALTER COLLATION'),
  CreateConversionStmt: { ...defining('CREATE CONVERSION'), runs: 'unknown' },
  CreateCastStmt: defining('CREATE CAST'),
  CreateTransformStmt: { ...defining('CREATE TRANSFORM'), runs: 'unknown' },
  CreateFunctionStmt: {
    ...defining('CREATE FUNCTION'),
    runs: 'nothing',
    reach: ofFunction,
    actions: ({ funcname }) => [{ does: 'create function', function: nameOfParts(funcname) }],
  },
  AlterFunctionStmt: {
    ...defining('ALTER FUNCTION'),
    runs: 'nothing',
    reach: ({ actions }) => reachOfSets(setsAmong(actions)),
  },
  AlterOperatorStmt: defining('ALTER OPERATOR'),
  CreateOpClassStmt: defining('CREATE OPERATOR CLASS'),
  CreateOpFamilyStmt: defining('CREATE OPERATOR FAMILY'),
  AlterOpFamilyStmt: defining('ALTER OPERATOR FAMILY'),
  CreateAmStmt: { ...defining('CREATE ACCESS METHOD'), runs: 'unknown' },
  CreatePLangStmt: {
    ...defining('CREATE LANGUAGE'),
    runs: 'unknown',
    // Without a handler the parser makes CREATE EXTENSION of it.
    outside: ({ pltrusted: isTrusted, plname = '' }) => (isTrusted ? undefined : `CREATE LANGUAGE ${plname}`),
  },
  AlterTSConfigurationStmt: defining('ALTER TEXT SEARCH CONFIGURATION'),
  AlterTSDictionaryStmt: defining('ALTER TEXT SEARCH DICTIONARY'),
  CreateExtensionStmt: {
    ...defining('CREATE EXTENSION'),
    outside: ({ extname = '' }) => (givesExternalAccess(extname) ? `CREATE EXTENSION ${extname}` : undefined),
    runsCode: true,
  },
  AlterExtensionStmt: { ...defining('ALTER EXTENSION'), runsCode: true },
  // A function that belongs to a harmless extension counts as harmless.
  AlterExtensionContentsStmt: { ...defining('ALTER EXTENSION'), runs: 'unknown' },
  CreateEventTrigStmt: defining('CREATE EVENT TRIGGER'),
  AlterEventTrigStmt: defining('ALTER EVENT TRIGGER'),
} satisfies Partial<StatementTable<StatementKind>>;

function ofFunction({ options }: Tree.CreateFunctionStmt): Reach {
  const language = stringOf(optionOf(options, 'language')?.arg) ?? '';
  const body = optionOf(options, 'as')?.arg;
  const [library = ''] = body && 'List' in body ? strings(body.List.items) : [];
  const loads =
    language.toLowerCase() === 'c' ? reachOfLibrary('CREATE FUNCTION of the library', library) : 'database';
  return loads === 'database' ? reachOfSets(setsAmong(options)) : loads;
}

/** The letters are those of AlterDomainStmt's subtype: C adds a constraint, O sets NOT NULL, V validates. */
function domainAlteration({ subtype, typeName, def }: Tree.AlterDomainStmt): Action[] {
  const domain = nameOfParts(typeName);
  if (String(subtype) === 'O') return [{ does: 'alter domain', domain, adds: 'not null', notValid: false }];
  if (String(subtype) === 'V') return [{ does: 'alter domain', domain, adds: 'validation', notValid: false }];
  if (String(subtype) !== 'C' || !def || !('Constraint' in def)) return [];
  const adds = def.Constraint.contype === 'CONSTR_NOTNULL' ? 'not null' : 'check';
  return [{ does: 'alter domain', domain, adds, notValid: def.Constraint.skip_validation ?? false }];
}
