import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { ChangedDefinition } from '../../../src/model/definition-kinds.ts';
import { NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

type Change = Pick<ChangedDefinition, 'kind' | 'name' | 'before' | 'after'>;

const PAIR: Change = { kind: 'statistics', name: '2 3', before: 'country, city', after: null };
const DEFINITION = 'CREATE STATISTICS public.places (dependencies) ON country, city FROM public.visits';
const DROPPED: Change = { kind: 'statistics object', name: 'places', before: DEFINITION, after: null };
const OFF: Change = { kind: 'statistics off', name: 'places', before: null, after: 'public.places' };

function told(changes: readonly Change[], sql: string) {
  return findHazards(
    facts({
      statements: [statement(1, { sql })],
      catalogue: {
        relations: new Map([['public.visits', relation(8192, 200_000)]]),
        effects: {
          ...NO_EFFECTS,
          redefined: changes.map((each) => ({ ...each, relation: 'public.visits' })),
        },
      },
    }),
  )
    .filter(({ code }) => code === 'STATISTICS_OFF')
    .map(({ statement, evidence, advice }) => ({ statement, evidence, fix: advice.split('\n').slice(1) }));
}

test('dropped statistics are gathered again by their definition of before', () => {
  expect(told([PAIR, DROPPED], 'DROP STATISTICS places')).toEqual([
    {
      statement: 1,
      evidence: expect.stringMatching(/^pg_statistic_ext has no such object after the command; /),
      fix: [`${DEFINITION};`],
    },
  ]);
});

test('statistics whose target is 0 get the target of the server back', () => {
  // As the catalogue shows it: the definition is none of those that are gathered.
  expect(told([PAIR, DROPPED, OFF], 'ALTER STATISTICS places SET STATISTICS 0')).toEqual([
    {
      statement: 1,
      evidence: expect.stringMatching(/^the statistics target is 0 after the command; /),
      fix: ['ALTER STATISTICS public.places SET STATISTICS -1;'],
    },
  ]);
});

test('statistics that others replace are no hazard, whatever became of the object', () => {
  expect(told([DROPPED, OFF], 'ALTER STATISTICS places SET STATISTICS 0')).toEqual([]);
});
