import { expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import { weighLoss } from '../../../src/hazards/severity.ts';
import { facts } from '../../helpers/facts.ts';

test.each([
  [null, 'error'],
  [0, 'notice'],
  [5, 'warning'],
  [1_000_000, 'error'],
])(
  'the loss of %j rows of a table that nobody uses is a matter of their number, and grave if that is not known',
  (rows, severity) => {
    expect(weighLoss(new HazardContext(facts({})), 'public.t', rows)).toBe(severity);
  },
);
