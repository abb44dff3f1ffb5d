import { expect, test } from 'vitest';
import { attemptAdvice, attemptWords, decidingAttempts } from '../../../src/hazards/attempt-words.ts';
import type { CommandAttempt, CommandSection } from '../../../src/model/report.ts';
import { sampleReport } from '../../helpers/reports.ts';

const DOPPLER: CommandAttempt = { host: 'api.doppler.com', port: 443, count: 1, reason: 'not-allowed' };
const OTHER: CommandAttempt = { host: 'other.example', port: 5432, count: 2, reason: 'postgres' };
const TARGET: CommandAttempt = { host: '127.0.0.1', port: 5432, count: 1, reason: 'target' };
const NAME: CommandAttempt = { host: 'mongo.example', port: null, count: 1, reason: 'not-allowed' };

test('attempts are named with the flag and the key that allow them', () => {
  expect(attemptWords([DOPPLER])).toBe(
    'its own output says why; if that names api.doppler.com:443, which the sandbox does not allow: --permit api.doppler.com:443',
  );
  expect(attemptAdvice([DOPPLER])).toBe(
    "if the output of the command names it, --permit api.doppler.com:443, or permit: ['api.doppler.com:443'] in a config file",
  );
  // Another database is no matter of a file that comes with the code.
  expect(attemptAdvice([OTHER])).toBe(
    'if the output of the command names it, --permit postgres:other.example:5432',
  );
  expect(attemptAdvice([NAME])).toContain('mongo.example:443');
  expect(attemptAdvice([NAME])).toContain('443 stands for a port');
});

test('the target cannot be allowed: its connection has to be rewritten', () => {
  expect(attemptWords([TARGET])).toMatch(/^it tried to reach the target itself at 127.0.0.1:5432: /);
  expect(attemptAdvice([TARGET])).not.toContain('--permit');
  expect(attemptAdvice([TARGET])).toContain('{safemigrate:config FILE}');
});

const commandThat = (more: Partial<CommandSection>, attempts: CommandAttempt[]): CommandSection => {
  const { command } = sampleReport();
  return { ...command, ...more, isolation: { ...command.isolation, attempts } };
};

test.each([
  ['it succeeded', { exitCode: 0, reachedClone: true }, 1, [DOPPLER, TARGET], []],
  // Its own error is the reason, whether a statement failed or not.
  ['something was sent', { exitCode: 1, reachedClone: true, failedWithoutError: true }, 1, [DOPPLER], []],
  ['nothing was sent', { exitCode: 1, reachedClone: true }, 0, [DOPPLER], [DOPPLER]],
  ['it never came to the clone', { exitCode: 1, reachedClone: false }, 0, [DOPPLER], [DOPPLER]],
  ['nor said so', { exitCode: 0, reachedClone: false }, 0, [DOPPLER], [DOPPLER]],
  ['the target comes first', { exitCode: 1, reachedClone: true }, 1, [DOPPLER, TARGET], [TARGET]],
])('attempts decide if they may be the reason: %s', (_, more, sent, attempts, deciding) => {
  expect(decidingAttempts(commandThat(more, attempts), Array(sent).fill({}))).toEqual(deciding);
});
