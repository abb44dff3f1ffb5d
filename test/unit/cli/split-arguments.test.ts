import { describe, expect, test } from 'vitest';
import { readWords } from '../../../src/cli/program.ts';
import { noCommand, splitWords, strayWords } from '../../../src/cli/split-arguments.ts';

const ask = (line: string) => {
  const words = splitWords(line.split(' ').filter((word) => word !== ''));
  return readWords(words.own, words.command !== undefined);
};

describe('the words of the command', () => {
  test.each([
    ['-- clean', [], ['clean']],
    ['-- clean --kept', [], ['clean', '--kept']],
    ['--keep -- list -- x', ['--keep'], ['list', '--', 'x']],
    ['--', [], []],
    ['clean', ['clean'], undefined],
    ['', [], undefined],
  ])('%s', (line, own, command) => {
    expect(splitWords(line.split(' ').filter((word) => word !== ''))).toEqual({ own, command });
  });
});

describe('what is asked for', () => {
  test('behind two dashes is a rehearsal, whatever the program is called', () => {
    for (const name of ['clean', 'list', 'demo', 'help', '--version'])
      expect(ask(`-- ${name}`)).toMatchObject({ action: 'rehearse' });
  });

  test.each(['list', 'clean', 'demo'])('%s without dashes is the subcommand', (name) => {
    expect(ask(name)).toMatchObject({ action: name });
  });

  test('explain takes one code, or none', () => {
    expect(ask('explain')).toEqual({ action: 'explain', values: {} });
    expect(ask('explain TABLE_DROPPED')).toEqual({ action: 'explain', values: {}, subject: 'TABLE_DROPPED' });
    expect(() => ask('explain A B')).toThrow(expect.objectContaining({ code: 'USAGE' }));
    expect(() => ask('--keep explain A')).toThrow(expect.objectContaining({ code: 'USAGE' }));
  });

  test('keeps each value as text for the one parser', () => {
    expect(ask('--timeout 5 --report a.json --report b.txt --keep -- x')).toEqual({
      action: 'rehearse',
      values: { timeout: ['5'], report: ['a.json', 'b.txt'], keep: ['true'] },
    });
    expect(ask('clean --kept')).toEqual({ action: 'clean', values: { kept: ['true'] } });
  });

  test.each(['--colour -- x', '--timeout', 'clean --keep', '--timeot 5 -- x'])(
    '%s is wrong usage',
    (line) => {
      expect(() => ask(line)).toThrow(expect.objectContaining({ code: 'USAGE' }));
    },
  );

  test.each([
    ['--max-stall', '--limit stall=<duration>'],
    ['--allow', '--accept CODE='],
    ['--from', '--dump FILE'],
    ['--rehearsal-url=x', '--clone-to URL'],
    ['--observe', 'set SAFEMIGRATE_OBSERVE, or observe in the config file'],
  ])('%s has another name, which the hint gives', (flag, now) => {
    expect(() => ask(`${flag} x -- y`)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining(now) }),
    );
  });

  test.each(['list -- x', 'clean up', 'npx prisma migrate deploy', 'migrate'])(
    '%s is wrong usage, and the hint shows the two dashes',
    (line) => {
      expect(() => ask(line)).toThrow(
        expect.objectContaining({ code: 'USAGE', hint: expect.stringContaining('--') }),
      );
    },
  );
});

test('a command without dashes is shown with them', () => {
  expect(strayWords(['npx', 'prisma'], false).hint).toContain('safemigrate -- npx prisma');
  expect(noCommand().hint).toContain('safemigrate -- ');
});
