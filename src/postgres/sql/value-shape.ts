import type * as Tree from 'libpg-query';
import { kindOf, type Node, nameOfParts } from './tree.ts';

/**
 * Writes a parsed statement as text, without the values that it only stores or passes on: constants that are the whole
 * DEFAULT of a column, the text of a COMMENT, constants that are whole arguments of CALL or EXECUTE. Two statements with the
 * same shape differ at most in strings for strings, and in numbers for numbers, in these places. Names written as strings
 * (`'t'::regclass`), booleans and NULL are part of the shape, and so is everything else.
 */
export function shapeWithoutValues(node: Node): string {
  return JSON.stringify(withoutValues(kindOf(node), node[kindOf(node)]));
}

function withoutValues(kind: string, part: unknown): unknown {
  if (Array.isArray(part)) return part.map((item) => withoutValues(kind, item));
  if (typeof part !== 'object' || part === null) return part;
  const fields = Object.entries(part).filter(
    ([key, value]) => !(/location$/.test(key) && typeof value === 'number'),
  );
  return Object.fromEntries(
    fields.map(([key, value]) => [
      key,
      isPlaceOfValue(kind, key, part) ? valueless(value) : withoutValues(key, value),
    ]),
  );
}

function isPlaceOfValue(kind: string, field: string, fields: object): boolean {
  switch (`${kind}.${field}`) {
    case 'Constraint.raw_expr':
      return 'contype' in fields && fields.contype === 'CONSTR_DEFAULT';
    case 'AlterTableCmd.def':
      return 'subtype' in fields && fields.subtype === 'AT_ColumnDefault';
    case 'CommentStmt.comment':
    case 'ExecuteStmt.params':
    case 'CallStmt.funccall':
      return true;
    default:
      return false;
  }
}

/** Replaces a constant by a placeholder; leaves other expressions unchanged. */
function valueless(value: unknown): unknown {
  if (typeof value === 'string') return { string: true };
  if (Array.isArray(value)) return value.map(valueless);
  if (typeof value !== 'object' || value === null) return value;
  // The call of a procedure.
  if ('args' in value) return { ...(withoutValues('', value) as object), args: valueless(value.args) };
  if ('A_Const' in value) return withoutConstant(value as { A_Const: Tree.A_Const });
  if ('NamedArgExpr' in value) {
    const { arg, name } = value.NamedArgExpr as Tree.NamedArgExpr;
    return { NamedArgExpr: { arg: valueless(arg), name } };
  }
  if ('TypeCast' in value) {
    const { arg, typeName } = value.TypeCast as Tree.TypeCast;
    if (!/^reg/.test(nameOfParts(typeName?.names).name))
      return { TypeCast: { arg: valueless(arg), typeName: withoutValues('TypeName', typeName) } };
  }
  return withoutValues('', value);
}

function withoutConstant(constant: { A_Const: Tree.A_Const }): unknown {
  const { sval, ival, fval } = constant.A_Const;
  if (sval) return { A_Const: 'string' };
  return ival || fval ? { A_Const: 'number' } : withoutValues('', constant);
}
