import { SafemigrateError } from '../errors.ts';
import type { Assessment, CloneContext, CloneMethod, MethodId, Possible } from './method.ts';
import { template } from './template.ts';

const METHODS: Partial<Record<MethodId, CloneMethod>> = { template };

export interface Choice {
  readonly method: CloneMethod;
  readonly assessment: Possible;
}

/** Takes the way that disturbs the target least, and of equals the fastest; a forced one is taken or refused. */
export async function chooseMethod(context: CloneContext, wanted: 'auto' | MethodId): Promise<Choice> {
  const candidates = Object.values(METHODS).filter(({ id }) => wanted === 'auto' || id === wanted);
  const assessed = await Promise.all(
    candidates.map(async (method) => ({ method, assessment: await method.assess(context) })),
  );
  const possible = assessed.filter((choice): choice is Choice => choice.assessment.possible);
  possible.sort(
    (one, other) =>
      Number(one.assessment.endsSessions) - Number(other.assessment.endsSessions) ||
      one.assessment.readyMs - other.assessment.readyMs,
  );
  const [best] = possible;
  if (best) return best;
  throw new SafemigrateError('CLONE', `No clone can be made here:\n${assessed.map(explain).join('\n')}`, {
    hint: 'The target was not touched.',
  });
}

function explain({ method, assessment }: { method: CloneMethod; assessment: Assessment }): string {
  if (assessment.possible) return '';
  const enable = assessment.enable ? `\n    What would help: ${assessment.enable}` : '';
  return `  ${method.id}: ${assessment.reason}${enable}`;
}
