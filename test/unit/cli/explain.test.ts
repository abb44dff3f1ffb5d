import { describe, expect, test } from 'vitest';
import { explanation, listOfHazards, recordOf } from '../../../src/cli/commands/explain-command.ts';
import { KNOWN_HAZARDS } from '../../../src/hazards/catalogue.ts';
import { displayWidth } from '../../../src/report/width.ts';

describe('explain', () => {
  test('lists every hazard with its title', () => {
    const lines = listOfHazards().split('\n');
    for (const { code, title } of KNOWN_HAZARDS)
      expect(lines.filter((line) => line.startsWith(`${code} `) && line.endsWith(title))).toHaveLength(1);
  });

  test.each(KNOWN_HAZARDS)('says of $code when it is found, what happens and what to do', (record) => {
    const text = explanation(record, { columns: 80, colour: false, unicode: true });
    expect(text.split('\n')[0]).toMatch(new RegExp(`^${record.code}: `));
    expect(text.match(/^(?:Found when|In production|Safer)$/gm)).toHaveLength(3);
    for (const line of text.split('\n')) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
  });

  test.each(['TABLE_DROPPED', 'table_dropped', 'table-dropped'])('takes %s', (code) => {
    expect(recordOf(code).code).toBe('TABLE_DROPPED');
  });

  test('guesses what was meant', () => {
    expect(() => recordOf('TABEL_DROPED')).toThrow(
      expect.objectContaining({
        code: 'USAGE',
        hint: expect.stringContaining('Did you mean TABLE_DROPPED?'),
      }),
    );
  });

  test('does not guess where nothing is like it', () => {
    expect(() => recordOf('XYZ')).toThrow(
      expect.objectContaining({ code: 'USAGE', hint: 'All of them: safemigrate explain' }),
    );
  });
});
