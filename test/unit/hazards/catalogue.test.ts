import { describe, expect, test } from 'vitest';
import { CATALOGUE } from '../../../src/hazards/catalogue.ts';
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
});
