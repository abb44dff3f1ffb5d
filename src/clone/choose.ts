import { SafemigrateError } from '../errors.ts';
import { formatDuration } from '../format.ts';
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
  const considered = await considerMethods(context, wanted);
  const [best] = considered;
  if (best?.assessment.possible) return { ...best, assessment: best.assessment, considered };
  throw new SafemigrateError('CLONE', `No clone can be made here:\n${considered.map(explain).join('\n')}`, {
    hint: 'The target was not touched. `safemigrate doctor` shows all ways and what they need.',
  });
}

/**
 * As assessMethods(), except that what cannot come first is not looked at: that starts programs and reads folders, for
 * longer than a small target takes to be cloned.
 */
async function considerMethods(context: CloneContext, wanted: 'auto' | MethodId): Promise<Considered[]> {
  if (wanted !== 'auto') return assessMethods(context, wanted);
  const soon = METHODS.filter((method) => method.atLeastMs(context) === 0);
  const considered = byPreference(await assess(soon, context, wanted));
  const best = considered[0]?.assessment;
  const isFirst = (method: CloneMethod) =>
    best?.possible === true &&
    (best.asked || (!best.endsSessions && best.readyMs <= method.atLeastMs(context)));
  const others = METHODS.filter((method) => !soon.includes(method));
  const assessed = await assess(
    others.filter((method) => !isFirst(method)),
    context,
    wanted,
  );
  return [
    ...byPreference([...considered, ...assessed]),
    ...others.filter(isFirst).map((method) => notLookedAt(method, context)),
  ];
}

function notLookedAt(method: CloneMethod, context: CloneContext): Considered {
  const reason = `not looked at: estimated ${formatDuration(method.atLeastMs(context))} or more`;
  return { method, assessment: { possible: false, reason } };
}

/** All methods with what each would cost here, in the order of preference. */
export async function assessMethods(context: CloneContext, wanted: 'auto' | MethodId): Promise<Considered[]> {
  const candidates = METHODS.filter(({ id }) => wanted === 'auto' || id === wanted);
  return byPreference(await assess(candidates, context, wanted));
}

function assess(
  methods: readonly CloneMethod[],
  context: CloneContext,
  wanted: 'auto' | MethodId,
): Promise<Considered[]> {
  return Promise.all(
    methods.map(async (method) => {
      const assessment = bringsRows(method.id, context) ?? (await method.assess(context));
      return {
        method,
        assessment:
          wanted === 'auto' ? withinLimit(assessment, method.id, context.limits.maxCopyBytes) : assessment,
      };
    }),
  );
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
