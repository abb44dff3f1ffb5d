import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'rolldown/utils';

/** The block of docs/report.md that `npm run docs` writes: all paths of the report, with the comments of its model. */
export const REPORT_BLOCK = 'paths';
export const REPORT_PAGE = 'docs/report.md';

const MODEL = fileURLToPath(new URL('../../src/model', import.meta.url));

/** The parts of a syntax tree that are read here. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

interface Source {
  readonly comments: readonly { readonly value: string; readonly start: number; readonly end: number }[];
  readonly text: string;
}

/** A schema of the model: the expression that makes it, and the file that the expression is in. */
interface Schema {
  readonly node: Node;
  readonly source: Source;
  /** The doc comment of its declaration. */
  readonly comment?: string;
}

export interface ReportRow {
  readonly path: string;
  readonly type: string;
  readonly comment: string;
}

/** All paths of the report as Markdown tables, one for each of its sections. */
export function reportPaths(): string {
  const sections = modelRows('printedReport').map(({ section, rows }) => {
    return [
      `## ${section}`,
      '',
      '| path | type | |',
      '|---|---|---|',
      ...rows.map((row) => `| \`${row.path}\` | ${cell(row.type)} | ${cell(row.comment)} |`),
    ].join('\n');
  });
  return sections.join('\n\n');
}

/** Returns the paths of a schema of the model, by the name of its constant, that no comment describes. */
export function undescribedPaths(name: string): string[] {
  return modelRows(name).flatMap(({ rows }) =>
    rows.filter(({ comment }) => comment === '').map(({ path }) => path),
  );
}

/** The paths of each section of the report. */
export function reportRows(): { readonly section: string; readonly rows: readonly ReportRow[] }[] {
  return modelRows('report');
}

function modelRows(constant: string) {
  const schemas = readModel();
  return propertiesOf(resolve(identifier(constant), schemas), schemas).map(({ name, schema, comment }) => {
    const rows: ReportRow[] = [];
    describe(name, schema, comment, schemas, rows);
    return { section: name, rows };
  });
}

function readModel(): ReadonlyMap<string, Schema> {
  const schemas = new Map<string, Schema>();
  for (const file of readdirSync(MODEL).sort()) {
    const text = readFileSync(path.join(MODEL, file), 'utf8');
    const { program, comments } = parseSync(file, text);
    for (const statement of program.body as unknown as Node[]) {
      const declaration = (statement.declaration ?? statement) as Node;
      if (declaration.type !== 'VariableDeclaration') continue;
      for (const { id, init } of declaration.declarations as { id: Node; init: Node | null }[]) {
        const source = { comments, text };
        if (init)
          schemas.set(id.name as string, {
            node: init,
            source,
            comment: commentBefore(statement.start, source),
          });
      }
    }
  }
  return schemas;
}

function describe(
  at: string,
  schema: Schema,
  comment: string,
  schemas: ReadonlyMap<string, Schema>,
  rows: ReportRow[],
): void {
  const { suffix, inner } = unwrapped(schema, schemas);
  const isList = methodOf(inner.node) === 'array';
  const element = isList ? unwrapped({ ...inner, node: argumentOf(inner.node) }, schemas).inner : inner;
  const name = isList ? `${at}[]` : at;
  rows.push({
    path: name,
    type: `${isList ? 'list of ' : ''}${typeOf(element.node)}${suffix}`,
    comment: comment || (element.comment ?? ''),
  });
  // Statements of further runs are those of `statements`.
  if (at.includes('.') && name.endsWith('statements[]')) return;
  for (const property of propertiesOf(element, schemas))
    describe(`${name}.${property.name}`, property.schema, property.comment, schemas, rows);
}

/** Follows names, and takes off `.nullable()` and the like. */
function unwrapped(schema: Schema, schemas: ReadonlyMap<string, Schema>): { suffix: string; inner: Schema } {
  const known = resolve(schema, schemas);
  const method = methodOf(known.node);
  if (method === 'nullable' || method === 'optional') {
    const { suffix, inner } = unwrapped({ ...known, node: calledOn(known.node) }, schemas);
    return { suffix: `${suffix}${method === 'nullable' ? ' or null' : ', may be absent'}`, inner };
  }
  return { suffix: '', inner: known };
}

const MEASURES: Readonly<Record<string, string>> = { milliseconds: 'ms', bytes: 'bytes', time: 'time' };

function typeOf(node: Node): string {
  if (node.type === 'Identifier') return MEASURES[node.name as string] ?? (node.name as string);
  const method = methodOf(node);
  if (method === 'enum') {
    return ((argumentOf(node).elements ?? []) as Node[]).map(({ value }) => `\`${value}\``).join(', ');
  }
  if (method === 'literal') return `\`${argumentOf(node).value}\``;
  if (method === 'extend') return 'object';
  if (method === 'nonnegative') return typeOf(calledOn(node));
  return method ?? node.type;
}

function propertiesOf(
  schema: Schema,
  schemas: ReadonlyMap<string, Schema>,
): { name: string; schema: Schema; comment: string }[] {
  const { node, source } = resolve(schema, schemas);
  const method = methodOf(node);
  if (method !== 'object' && method !== 'extend') return [];
  const inherited = method === 'extend' ? propertiesOf({ node: calledOn(node), source }, schemas) : [];
  // Properties that several schemas have are an object of their own.
  const given = argumentOf(node);
  const shape =
    given.type === 'Identifier' ? resolve({ node: given, source }, schemas) : { node: given, source };
  const own = (shape.node.properties as Node[]).map((property) => ({
    name: (property.key as Node).name as string,
    schema: { node: property.value as Node, source: shape.source },
    comment: commentBefore(property.start, shape.source),
  }));
  return [...inherited, ...own];
}

/** The schema that a name stands for; units of measure stay names. */
function resolve(schema: Schema, schemas: ReadonlyMap<string, Schema>): Schema {
  if (schema.node.type !== 'Identifier' || (schema.node.name as string) in MEASURES) return schema;
  const found = schemas.get(schema.node.name as string);
  if (!found) throw new Error(`the model has no ${schema.node.name}`);
  return resolve(found, schemas);
}

function identifier(name: string): Schema {
  return { node: { type: 'Identifier', start: 0, name }, source: { comments: [], text: '' } };
}

/** `object` of `z.object(…)`. */
function methodOf(node: Node): string | undefined {
  if (node.type !== 'CallExpression') return undefined;
  return ((node.callee as Node).property as Node).name as string;
}

/** The expression that a method is called on. */
function calledOn(node: Node): Node {
  return (node.callee as Node).object as Node;
}

function argumentOf(node: Node): Node {
  const [argument] = node.arguments as Node[];
  if (!argument) throw new Error(`${methodOf(node)} has no argument`);
  return argument;
}

/** The text of the doc comment directly before a place. */
function commentBefore(start: number, { comments, text }: Source): string {
  const comment = comments.find(({ end }) => end <= start && text.slice(end, start).trim() === '');
  if (!comment) return '';
  return comment.value
    .replaceAll(/^\s*\*+ ?/gm, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
