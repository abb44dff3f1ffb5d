import { inBlock } from '../../postgres/sql/classify-statement.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { isGuard } from '../concurrent-forms.ts';
import {
  LOCK_TIMEOUT,
  NO_LOCK_TIMEOUT,
  RESET_LOCK_TIMEOUT,
  type ScriptPart,
  statementsOfScript,
} from '../write-script.ts';
import { commented, type MigrationFiles, type SaferMigration } from './safer-migration.ts';

/** One file, whose statements Flyway sends one after the other outside of a transaction. */
export function flywayFiles({ recorded: { name }, parts, heading }: SaferMigration): MigrationFiles {
  const note = [`A database that has ${name} applied already needs its new checksum: flyway repair`];
  const blocks = [...parts, { comment: null, statements: [RESET_LOCK_TIMEOUT], begin: null }].map((part) => [
    ...commented(part.comment === null ? [] : [part.comment], '--'),
    ...statementsOfScript([part]).map((sql) => `${sql};`),
  ]);
  return new Map([
    [name, text([commented([...heading, ...note], '--'), ...blocks])],
    [`${name}.conf`, 'executeInTransaction=false\nplaceholderReplacement=false\n'],
  ]);
}

/**
 * One file, of which Drizzle sends each statement by itself. It runs all pending migrations in one transaction, which the first
 * statement ends; the last one begins the transaction in which Drizzle records the migration.
 */
export function drizzleFiles({ recorded: { name }, parts, heading }: SaferMigration): MigrationFiles {
  const note = [
    `It has the name of the original, so that meta/_journal.json stays as it is, and a database that has ${name} applied already keeps it.`,
    'The COMMIT ends the transaction in which Drizzle runs all pending migrations, since an index cannot be built concurrently in one.',
    'If a statement fails, what stands before it is done: take that out of this file before you run it again.',
  ];
  const blocks = parts.flatMap(({ comment, ...part }) =>
    statementsOfScript([{ ...part, comment: null }]).map((sql, index) => [
      ...commented(comment === null || index > 0 ? [] : [comment], '--'),
      `${sql};`,
    ]),
  );
  const statements = [['COMMIT;'], ...blocks, [`${RESET_LOCK_TIMEOUT};`], ['BEGIN;']];
  const separated = statements.map((lines) => lines.join('\n')).join('\n--> statement-breakpoint\n');
  return new Map([[`${name}.sql`, text([commented([...heading, ...note], '--'), [separated]])]]);
}

/**
 * Prisma sends a file as one message, which is one transaction if nothing in it says otherwise: so what is refused in a transaction
 * gets a migration of its own, and other statements stand between BEGIN and COMMIT.
 */
export async function prismaFiles({
  recorded: { name },
  parts,
  heading,
}: SaferMigration): Promise<MigrationFiles> {
  const files = await dividedByMessage(parts);
  const digits = String(files.length).length;
  const names = files.map((_, index) =>
    files.length === 1 ? name : `${name}_${String(index + 1).padStart(digits, '0')}`,
  );
  const note = [
    `In the order of their names: ${names.join(', ')}.`,
    `In a database that has ${name} applied already, mark each of them as applied: npx prisma migrate resolve --applied NAME`,
    'If a build fails, drop its INVALID index (DROP INDEX CONCURRENTLY) before you run it again: npx prisma migrate resolve --rolled-back NAME',
  ];
  return new Map(
    files.map((blocks, index) => [
      `${names[index]}/migration.sql`,
      text([
        index === 0 ? commented([...heading, ...note], '--') : [`-- ${index + 1} of ${files.length}`],
        ...blocks,
      ]),
    ]),
  );
}

type Lines = readonly string[];

/** Returns the blocks of each file. */
async function dividedByMessage(parts: readonly ScriptPart[]): Promise<Lines[][]> {
  const files: Lines[][] = [];
  let together: Lines[] = [];
  let timeout: string | null = null;
  const add = (comment: string | null, statements: Lines, begin = 'BEGIN') => {
    const limit = timeout === null ? [] : [timeout];
    const lines = [begin, ...limit, ...statements, 'COMMIT'].map((sql) => `${sql};`);
    together.push([...commented(comment === null ? [] : [comment], '--'), ...lines]);
  };
  for (const { comment, statements, begin } of parts) {
    if (begin !== null) {
      add(comment, statements, begin);
      continue;
    }
    for (const sql of statements) {
      if (sql === LOCK_TIMEOUT) timeout = sql.replace('SET', 'SET LOCAL');
      else if (sql === NO_LOCK_TIMEOUT) timeout = null;
      // It would be in the file before that of the build, which is not run again with it.
      else if (isGuard(sql)) continue;
      else if (await isForBlocks(sql)) add(comment, [sql]);
      else {
        if (together.length > 0) files.push(together);
        files.push([[...commented(comment === null ? [] : [comment], '--'), `${sql};`]]);
        together = [];
      }
    }
  }
  return together.length > 0 ? [...files, together] : files;
}

async function isForBlocks(sql: string): Promise<boolean> {
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  const rule = statement && inBlock(statement.node);
  return rule === 'same' || rule === 'required';
}

const text = (blocks: readonly Lines[]) => `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
