import { describe, expect, test } from 'vitest';
import { CATALOGUE, KNOWN_HAZARDS, NOT_FELT_IN_SWAP } from '../../../src/hazards/catalogue.ts';
import { hazardFixtures } from '../../helpers/hazard-fixtures.ts';

const fixtures = hazardFixtures();

describe('the catalogue of hazards', () => {
  test.each(CATALOGUE)('the hazard $code has a bad and a good example', ({ code }) => {
    expect(fixtures.find(({ name }) => name === code)?.files).toEqual({
      bad: expect.stringContaining(`/${code}/bad.sql`),
      good: expect.stringContaining(`/${code}/good.sql`),
    });
  });

  test('each example belongs to a hazard', () => {
    const codes = new Set(CATALOGUE.map(({ code }) => code));
    expect(fixtures.map(({ code }) => code).filter((code) => !codes.has(code))).toEqual([]);
    const lacking = fixtures.filter(({ files }) => files.bad === undefined || files.good === undefined);
    expect(lacking.map(({ name }) => name)).toEqual([]);
  });

  test('each hazard is named once, in upper case', () => {
    const codes = CATALOGUE.map(({ code }) => code);
    expect(codes.filter((code) => !/^[A-Z]+(?:_[A-Z]+)*$/.test(code))).toEqual([]);
    expect(new Set(codes).size).toBe(codes.length);
  });

  test('a swap overlooks hazards of the catalogue, and neither losses nor failures', () => {
    const known = KNOWN_HAZARDS.map(({ code }) => code);
    expect(NOT_FELT_IN_SWAP.filter((code) => !known.includes(code))).toEqual([]);
    const grave = ['COLUMN_DROPPED', 'VALUES_CONVERTED', 'QUERY_BREAKS', 'TRAFFIC_FAILS', 'ERRORS_SWALLOWED'];
    expect(grave.filter((code) => !known.includes(code) || NOT_FELT_IN_SWAP.includes(code))).toEqual([]);
  });
});
