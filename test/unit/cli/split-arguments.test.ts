import { describe, expect, test, vi } from 'vitest';
import { RUN_SETTINGS } from '../../../src/cli/options/run-table.ts';
import { subcommands } from '../../../src/cli/options/subcommand-table.ts';
import { readWords } from '../../../src/cli/program.ts';
import { noCommand, splitWords, strayWords } from '../../../src/cli/split-arguments.ts';
import { settingsIn } from '../../../src/settings.ts';

const ask = (line: string) => {
  const words = splitWords(line.split(' ').filter((word) => word !== ''));
  return readWords(words.own, words.command !== undefined);
};

describe('the words of the command', () => {
  test.each([
    ['-- clean', [], ['clean']],
    ['-- clean --kept', [], ['clean', '--kept']],
    ['--keep -- list -- x', ['--keep'], ['list', '--', 'x']],
    ['apply --yes -- tool --apply --swap', ['apply', '--yes'], ['tool', '--apply', '--swap']],
    ['-- apply', [], ['apply']],
    ['--', [], []],
    ['clean', ['clean'], undefined],
    ['', [], undefined],
  ])('%s', (line, own, command) => {
    expect(splitWords(line.split(' ').filter((word) => word !== ''))).toEqual({ own, command });
  });
});

describe('a mode that changes the target', () => {
  test.each(['apply', 'swap'])('is asked for by the word %s, and by nothing else', (mode) => {
    expect(ask(`${mode} --yes -- x`)).toEqual({ action: mode, values: { yes: ['true'] } });
    expect(ask(`--url a ${mode} -- x`)).toEqual({ action: mode, values: { url: ['a'] } });
    expect(() => ask(`--load ${mode} -- x`)).not.toThrow();
    expect(ask(`--load ${mode} -- x`)).toMatchObject({ action: 'rehearse' });
    const keys = [RUN_SETTINGS, ...subcommands().map(([, { options }]) => options)]
      .flatMap(settingsIn)
      .map(({ key }) => key);
    expect(keys.filter((key) => ['apply', 'swap', 'mode'].includes(key))).toEqual([]);
  });

  test('has the options before its name, too, and each value of those on both sides', () => {
    expect(ask('--limit wal=1GB --keep apply --limit lag=1s --yes -- x')).toEqual({
      action: 'apply',
      values: { limit: ['wal=1GB', 'lag=1s'], keep: ['true'], yes: ['true'] },
    });
  });

  test.each([
    ['--retries 1 apply -- x', '--retries'],
    ['apply --verify true -- x', '--verify'],
    ['swap --receipt r.json -- x', '--receipt'],
    ['apply --dump d -- x', '--dump'],
    ['clean --keep', '--keep'],
  ])('%s names a flag that it does not have there', (line, flag) => {
    expect(() => ask(line)).toThrow(
      expect.objectContaining({ code: 'USAGE', hint: expect.stringContaining(`${flag} is an option of`) }),
    );
  });

  test('takes its command after two dashes', () => {
    expect(() => ask('apply npx prisma --schema s')).toThrow(
      expect.objectContaining({
        hint: expect.stringContaining('safemigrate apply -- npx prisma --schema s'),
      }),
    );
    expect(noCommand('swap').hint).toContain('safemigrate swap -- ');
  });
});

describe('the help', () => {
  const helpOf = (...own: string[]) => {
    const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    try {
      expect(readWords(own, false)).toBe('shown');
      return write.mock.calls.join('');
    } finally {
      write.mockRestore();
    }
  };
  const flagsIn = (help: string): string[] => help.match(/^ +(?:-h, )?--[\w-]+/gm) ?? [];

  test.each(['rehearse', 'apply', 'swap'])('of all options of %s has at most 50 flags', (mode) => {
    const all = helpOf(...(mode === 'rehearse' ? [] : [mode]), '--help', 'all');
    expect(flagsIn(all).length).toBeLessThanOrEqual(50);
    expect(flagsIn(all).length).toBeGreaterThan(30);
  });

  test.each([
    ['rehearse', [], 60],
    ['apply', ['apply'], 55],
    ['swap', ['swap'], 40],
  ] as const)('of %s fits a screen, and shows what only it has', (_, words, lines) => {
    const help = helpOf(...words, '--help');
    expect(help.trim().split('\n').length).toBeLessThanOrEqual(lines);
    expect(flagsIn(help).includes('  --yes')).toBe(words.length > 0);
    expect(help).toContain('-- <command> [args...]');
  });
});

describe('what is asked for', () => {
  test('behind two dashes is a rehearsal, whatever the program is called', () => {
    for (const name of ['clean', 'list', 'demo', 'help', '--version', 'apply', 'swap'])
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
    ['--apply', 'safemigrate apply -- COMMAND'],
    ['--swap', 'safemigrate swap -- COMMAND'],
    ['--yes', '--yes is an option of safemigrate apply and safemigrate swap'],
    ['swap --retries', '--retries is an option of safemigrate apply'],
    ['--rehearsal-url=x', '--clone-to URL'],
    ['--observe', 'set SAFEMIGRATE_OBSERVE, or observe in the config file'],
    ['--restore-command', 'set SAFEMIGRATE_RESTORE_COMMAND.'],
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
  expect(noCommand('rehearse').hint).toContain('safemigrate -- ');
});
