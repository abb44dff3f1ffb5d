/** A node of a plan as EXPLAIN (FORMAT JSON) writes it, as far as it is read here. */
export interface Plan {
  readonly type: string;
  readonly relation: string | null;
  readonly index: string | null;
  /** How the query calls the relation. */
  readonly alias: string | null;
  /** In the planner's units. */
  readonly totalCost: number;
  readonly inputs: readonly Plan[];
}

/** @param value what EXPLAIN (FORMAT JSON) returned; undefined where that is not a plan. */
export function readPlan(value: unknown): Plan | undefined {
  const [first] = Array.isArray(value) ? value : [];
  return isRecord(first) && isRecord(first.Plan) ? nodeOf(first.Plan) : undefined;
}

function nodeOf(node: Record<string, unknown>): Plan {
  const text = (key: string) => (typeof node[key] === 'string' ? node[key] : null);
  return {
    type: text('Node Type') ?? '',
    relation: text('Relation Name'),
    index: text('Index Name'),
    alias: text('Alias'),
    totalCost: Number(node['Total Cost'] ?? 0),
    inputs: Array.isArray(node.Plans) ? node.Plans.filter(isRecord).map(nodeOf) : [],
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the names of the relations that a plan reads or writes, without their schemas. */
export function relationsIn(plan: Plan): string[] {
  return flat(plan).flatMap(({ relation }) => relation ?? []);
}

export interface ChangedNode {
  readonly before: string;
  readonly after: string;
}

/**
 * Where two plans of the same query part: the relation that is read in another way, the dearest of several; else the
 * first node from the top that is of another kind. null for plans of one shape.
 */
export function changedNode(before: Plan, after: Plan): ChangedNode | null {
  const then = flat(before);
  const scans = flat(after)
    .filter(({ alias }) => alias !== null)
    .flatMap((node) => {
      const was = then.find(({ alias }) => alias === node.alias);
      return was && wordsOf(was) !== wordsOf(node) ? [{ was, node }] : [];
    })
    .sort((one, other) => other.node.totalCost - one.node.totalCost);
  const [dearest] = scans;
  if (dearest) return { before: wordsOf(dearest.was), after: wordsOf(dearest.node) };
  return parting(before, after);
}

function parting(before: Plan, after: Plan): ChangedNode | null {
  if (wordsOf(before) !== wordsOf(after)) return { before: wordsOf(before), after: wordsOf(after) };
  for (const [index, node] of after.inputs.entries()) {
    const was = before.inputs[index];
    const found = was ? parting(was, node) : null;
    if (found) return found;
  }
  return null;
}

function flat(plan: Plan): Plan[] {
  return [plan, ...plan.inputs.flatMap(flat)];
}

function wordsOf({ type, relation, index }: Plan): string {
  const using = index === null ? '' : ` using ${index}`;
  return `${type}${using}${relation === null ? '' : ` on ${relation}`}`;
}
