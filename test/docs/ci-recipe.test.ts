import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { testRecipes } from '../helpers/ci-recipe.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { inThisShare } from '../helpers/share.ts';

const skip = await withoutClientPrograms('pg_dump', 'psql');

// Each takes seconds; soak/ci-recipe.test.ts has Drizzle, Alembic, Flyway and Rails.
describe.skipIf(skip)('what docs/ci.md and init say', () => {
  const tools = inThisShare(['Prisma', 'Django', 'Knex', 'goose'] as const, (tool) => tool === 'Prisma');
  testRecipes(tools, async ({ tool, folder, run }) => {
    if (tool !== 'Prisma') return;
    const file = path.join(folder, 'test/dump.sql');
    const rows = /^INSERT INTO public\._prisma_migrations [\s\S]*?;$/gm;
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(rows, ''));
    const { exitCode, stderr } = await run();
    expect(exitCode).toBe(1);
    const screen = stderr.replaceAll(/\s+/g, ' ');
    expect(screen).toContain('DID NOT PASS: ERROR: type "order_status" already exists');
    expect(screen).toContain(
      'failed with exit code 1: public._prisma_migrations is empty in this dump, so that',
    );
    expect(screen).toContain("pg_dump --data-only --inserts \\ --table='public._prisma_migrations' \\");
    // Without the table, Prisma sees by itself that the schema is not empty, after it has tried to report its use to a service.
    appendFileSync(file, 'DROP TABLE public._prisma_migrations;\n');
    const own = await run();
    expect(own.exitCode).toBe(1);
    expect(own.stderr).toContain('P3005');
    expect(own.stderr).not.toContain('--permit');
  });
});
