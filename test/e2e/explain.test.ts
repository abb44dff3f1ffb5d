import { describe, expect, test } from 'vitest';
import { safemigrate } from '../helpers/cli.ts';

describe('safemigrate explain', () => {
  test('needs no database', async () => {
    const { exitCode, stdout } = await safemigrate(['explain', 'INDEX_NOT_CONCURRENT']);
    expect(exitCode).toBe(0);
    expect(stdout).toContain('CREATE INDEX CONCURRENTLY');
  });

  test('lists all hazards', async () => {
    const { exitCode, stdout } = await safemigrate(['explain']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^TABLE_DROPPED {2,}\S/m);
  });

  test('ends with exit code 2 and a guess where there is no such hazard', async () => {
    const { exitCode, stdout, stderr } = await safemigrate(['explain', 'TABLE_DROPED']);
    expect(exitCode).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain('Did you mean TABLE_DROPPED?');
  });
});
