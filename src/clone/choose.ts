import { SafemigrateError } from '../errors.ts';
import { basebackup } from './basebackup.ts';
import { cluster } from './cluster.ts';
import { dump } from './dump.ts';
import { external } from './external.ts';
import type { Assessment, CloneContext, CloneMethod, Impossible, MethodId, Possible } from './method.ts';
import { byPreference, withinLimit } from './preference.ts';
import { template } from './template.ts';

const METHODS: readonly CloneMethod[] = [cluster, template, dump, basebackup, external];

export interface Choice {
  readonly method: CloneMethod;
  readonly assessment: Possible;
  /** Every method that was looked at, the one that was taken first. */
  readonly considered: readonly Considered[];
}

export interface Considered {
  readonly method: CloneMethod;
  readonly assessment: Assessment;
}

/**
 * Takes the way that disturbs the target least, and of equals the fastest; one that is named is taken or refused.
 * @throws SafemigrateError `CLONE` with the reason of each, and what would help.
 */
export async function chooseMethod(context: CloneContext, wanted: 'auto' | MethodId): Promise<Choice> {
  const considered = await assessMethods(context, wanted);
  const [best] = considered;
  if (best?.assessment.possible) return { ...best, assessment: best.assessment, considered };
  throw new SafemigrateError('CLONE', `No clone can be made here:\n${considered.map(explain).join('\n')}`, {
    hint: 'The target was not touched. `safemigrate doctor` shows all ways and what they need.',
  });
}

/** All methods with what each would cost here, in the order of preference. */
export async function assessMethods(context: CloneContext, wanted: 'auto' | MethodId): Promise<Considered[]> {
  const candidates = METHODS.filter(({ id }) => wanted === 'auto' || id === wanted);
  const considered = await Promise.all(
    candidates.map(async (method) => {
      const assessment = bringsRows(method.id, context) ?? (await method.assess(context));
      return {
        method,
        assessment:
          wanted === 'auto' ? withinLimit(assessment, method.id, context.limits.maxCopyBytes) : assessment,
      };
    }),
  );
  return byPreference(considered);
}

/** Rows that are not wanted in the clone may be ones that must not be there. */
function bringsRows(id: MethodId, { wishes }: CloneContext): Impossible | undefined {
  if (id === 'dump' || (!wishes.schemaOnly && wishes.excludeTableData.length === 0)) return undefined;
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
