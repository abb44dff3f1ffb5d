import { describe, expect, test } from 'vitest';
import { keptEnvironment } from '../../../src/command/sandbox/sandbox-words.ts';
import { leadsToClone } from '../../../src/command/sandbox/unnamed-target.ts';
import { isolationText, watchedWords } from '../../../src/report/isolation-phrases.ts';
import { sampleReports } from '../../helpers/reports.ts';

describe('whether the user led the command to the clone', () => {
  const leads = (argv: string[], env: Record<string, string> = {}, dotenv: Record<string, string> = {}) =>
    leadsToClone(
      { argv, urlVariable: 'DATABASE_URL' },
      {
        mentions: [],
        variables: { env, dotenv: new Map(Object.entries(dotenv)) },
      },
    );

  test.each([
    ['the variable, whatever its value', ['tool'], { DATABASE_URL: 'postgresql://elsewhere/x' }, {}],
    ['the variable in .env', ['tool'], {}, { DATABASE_URL: '' }],
    ['the variable in an argument', ['sh', '-c', 'psql "$DATABASE_URL"'], {}, {}],
    ['a placeholder in an argument', ['tool', '--url={safemigrate:url}'], {}, {}],
    ['a placeholder for a file', ['tool', '{safemigrate:config app.yaml}'], {}, {}],
    ['a placeholder in a variable', ['tool'], { DB_HOST: '{safemigrate:host}' }, {}],
  ])('yes: %s', (_, argv, env, dotenv) => {
    expect(leads(argv, env, dotenv)).toBe(true);
  });

  test('no: what has nothing to do with a database', () => {
    expect(leads(['npm', 'run', 'migrate'], { HOME: '/root' }, { PORT: '3000' })).toBe(false);
  });
});

test('variables that perl follows are passed by under other names, and the locale', () => {
  expect(keptEnvironment({ PERL5OPT: '-w', LC_ALL: 'de_DE', A: 'b' })).toEqual({
    SAFEMIGRATE_KEPT_PERL5OPT: '-w',
    SAFEMIGRATE_KEPT_LC_ALL: 'de_DE',
    A: 'b',
    LC_ALL: 'C',
  });
});

describe('the words for it', () => {
  const none = { by: null, scoped: false, covered: [], allowed: [], reason: null };

  test('say what each way leaves open, and why there is no better one', () => {
    const reason = 'bubblewrap: it is not installed';
    const landlock = { ...none, kind: 'restricted', by: 'landlock', reason } as const;
    expect(isolationText({ ...landlock, scoped: true })).toBe(
      "restricted by Landlock: TCP to the proxy's port alone, no signal to other processes; open are Unix sockets with a path, UDP, " +
        `and the same port of other hosts; no sandbox, because ${reason}`,
    );
    expect(isolationText(landlock)).toContain('open are Unix sockets, signals to other processes, UDP');
    expect(isolationText({ ...landlock, by: 'sandbox-exec' })).toContain('sandbox-exec (untried)');
    expect(isolationText({ ...none, kind: 'sandboxed', by: 'bubblewrap', allowed: ['a.example:443'] })).toBe(
      'sandboxed by bubblewrap: no network but the proxy, no Unix socket; --permit: a.example:443',
    );
  });

  test('stand in the first lines only if the command was watched against the default', () => {
    const { passed } = sampleReports;
    if (!passed) throw new Error('there is no such report');
    const of = (isolation: Parameters<typeof isolationText>[0]) =>
      watchedWords({ command: { ...passed.command, isolation } });
    expect(of({ ...none, kind: 'watched' })).toBeUndefined();
    expect(of({ ...none, kind: 'watched', reason: 'there is none' })).toBe(
      'The command was only watched, not sandboxed: there is none',
    );
  });
});
