import { SafemigrateError } from '../errors.ts';
import { basebackup } from './basebackup.ts';
import { cluster } from './cluster.ts';
import { dump } from './dump.ts';
import { external } from './external.ts';
import type { Assessment, CloneContext, CloneMethod, Impossible, Possible } from './method.ts';
import type { MethodId } from './method-id.ts';
import { byPreference, withinLimit } from './preference.ts';
import { template } from './template.ts';

const METHODS: readonly CloneMethod[] = [cluster, template, dump, basebackup, external];

export interface Choice {
  readonly method: CloneMethod;
  readonly assessment: Possible;
  /** Every method that was assessed, in the order of preference: the chosen one comes first. */
  readonly considered: readonly Considered[];
}

export interface Considered {
  readonly method: CloneMethod;
  readonly assessment: Assessment;
}

/**
 * Chooses the method that disturbs the target least, and of equals the fastest; a method that the user named is used or refused.
 * @throws SafemigrateError `CLONE` with the reason of each method, and what would help.
 */
export async function chooseMethod(context: CloneContext, wanted: 'auto' | MethodId): Promise<Choice> {
  const considered = await assessMethods(context, wanted);
  const [best] = considered;
  if (best?.assessment.possible) return { ...best, assessment: best.assessment, considered };
  throw new SafemigrateError('CLONE', `No clone can be made here:\n${considered.map(explain).join('\n')}`, {
    hint: 'The target was not touched. `safemigrate doctor` shows all ways and what they need.',
  });
}

/**
 * Assesses the wanted methods, one after the other, and returns them in the order of preference: together they take 0.06 to
 * 0.2 s, so that none is left out to save time.
 */
export async function assessMethods(context: CloneContext, wanted: 'auto' | MethodId): Promise<Considered[]> {
  const considered: Considered[] = [];
  for (const method of METHODS) {
    if (wanted === 'auto' || method.id === wanted)
      considered.push({ method, assessment: await assess(method, context, wanted) });
  }
  return byPreference(considered);
}

async function assess(
  method: CloneMethod,
  context: CloneContext,
  wanted: 'auto' | MethodId,
): Promise<Assessment> {
  const assessment = bringsRows(method.id, context) ?? (await method.assess(context));
  // A user who names the method accepts what it copies.
  return wanted === 'auto' ? withinLimit(assessment, method.id, context.options.maxCopyBytes) : assessment;
}

/** Refuses a method that copies all rows if the user leaves some out: they may be rows that must not be in a clone. */
function bringsRows(id: MethodId, { options }: CloneContext): Impossible | undefined {
  if (id === 'dump' || (!options.schemaOnly && options.excludeTableData.length === 0)) return undefined;
  return {
    possible: false,
    reason: 'it brings all rows, and --schema-only or --exclude-table-data leaves some out',
    enable: 'leave these options out',
  };
}

function explain({ method, assessment }: Considered): string {
  if (assessment.possible) return '';
  const enable = assessment.enable ? `\n    What would help: ${assessment.enable}` : '';
  return `  ${method.id}: ${assessment.reason}${enable}`;
}
