import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Hazard } from '../../model/report.ts';
import { nameTarget } from '../../ownership/folder-records.ts';
import { migrationFiles, type SaferMigration } from '../../propose/formats/migration-files.ts';
import type { MigrationStatements, ToolFormat } from '../../propose/formats/recorded-migration.ts';
import type { Recording } from '../../propose/kept-statements.ts';
import type { Before } from '../../propose/subject.ts';
import {
  type FailedForms,
  renderScript,
  type ScriptChange,
  type ScriptPart,
  writeScript,
} from '../../propose/write-script.ts';
import { PROPOSAL_HEADING } from '../places/source-files.ts';
import type { CloneSetup } from '../run-on-clone.ts';
import { writeFileWhole, writeFolderWhole } from '../write-whole.ts';

/** A script that is proved. */
interface Proposal {
  readonly file: string;
  readonly parts: readonly ScriptPart[];
  readonly tolerated: readonly string[];
  /** Migrations of the command that have a safer form; null: it is written as plain SQL. */
  readonly migrations: readonly ProposedMigration[] | null;
}

type ProposedMigration = Omit<SaferMigration, 'heading'>;

/**
 * Writes what takes the place of each migration; those that stay as they are, are left out.
 * @throws Error in words for the user if two have the same name, as migrations of two apps of Django may
 */
export function proposedMigrations(
  recording: Recording,
  before: Before,
  migrations: readonly MigrationStatements[],
  {
    scripted,
    staying,
    failed,
  }: {
    readonly scripted: readonly Hazard[];
    readonly staying: readonly ScriptChange[];
    readonly failed: FailedForms;
  },
): ProposedMigration[] {
  const proposed = migrations.flatMap(({ recorded, statements }, at) => {
    const isLast = at === migrations.length - 1;
    const isOwn = ({ statement }: Hazard) =>
      statement === null ? isLast : statements.some(({ section }) => section.index === statement);
    const { parts, changes } = writeScript(
      recording,
      before,
      statements,
      scripted.filter(isOwn),
      staying,
      failed,
    );
    return changes.length === 0 ? [] : [{ recorded, parts }];
  });
  const names = proposed.map(({ recorded: { name } }) => name);
  const twice = names.find((name, at) => names.indexOf(name) < at);
  if (twice !== undefined)
    throw new Error(
      `two migrations have the name ${twice}: apply one of them first, or leave out SAFEMIGRATE_PROPOSE_FORMAT`,
    );
  return proposed;
}

/** Writes the proposal, whole or not at all. @throws Error if something of its name is there */
export async function keepProposal(
  { plan: { proposeFormat: format }, context: { target } }: CloneSetup,
  { file, parts, tolerated, migrations }: Proposal,
): Promise<void> {
  const of = nameTarget(target);
  const proof = [
    'It was run on a clone, and left the same schema and the same rows as the migration did on another.',
    ...(tolerated.length > 0 ? [`Not compared, since any two runs differ: ${tolerated.join('; ')}`] : []),
  ];
  if (format === 'plain' || migrations === null) {
    await writeFileWhole(file, renderScript(parts, headingOf(proof)), of);
    return;
  }
  const files = new Map<string, string>();
  for (const migration of migrations) {
    const { name } = migration.recorded;
    const heading = [
      `A safer form of ${name}, written by safemigrate --propose.`,
      ...proof,
      ...(migrations.length > 1 ? [`It was run together with that of ${others(migrations, name)}.`] : []),
      `It takes the place of ${name} in the project, which is to be taken out of it.`,
      '',
    ];
    const written = await migrationFiles(format, { ...migration, heading });
    for (const [name, text] of written) files.set(name, text);
  }
  await writeFolderWhole(file, files, of);
}

function others(migrations: readonly ProposedMigration[], name: string): string {
  const names = migrations.map(({ recorded }) => recorded.name);
  return names.filter((each) => each !== name).join(', ');
}

function headingOf(proof: readonly string[]): string[] {
  return [
    PROPOSAL_HEADING,
    ...proof,
    '',
    'Run it with: psql -v ON_ERROR_STOP=1 -f FILE, not in a transaction (-1).',
    'If it stops, the statements before the failed one are committed: fix the cause and continue from there.',
    'What the migration tool records about itself is part of it: the tool will find the migration applied.',
  ];
}

/**
 * Returns the migrations with the names of their files, where the tool records something else.
 * @throws Error in words for the user if a migration is not found below the folder
 */
export function withFileNames(
  migrations: readonly MigrationStatements[],
  format: ToolFormat,
  folder: string,
): readonly MigrationStatements[] {
  if (format !== 'drizzle') return migrations;
  const names = new Map(drizzleNames(folder, MOST_FOLDERS));
  return migrations.map(({ recorded, statements }) => {
    const name = names.get(recorded.name);
    if (name === undefined)
      throw new Error(
        `no meta/_journal.json below ${folder} has a migration with "when": ${recorded.name}: run the command from the project's folder, or leave out SAFEMIGRATE_PROPOSE_FORMAT`,
      );
    return { recorded: { ...recorded, name }, statements };
  });
}

/** Folders within each other in which a journal is looked for. */
const MOST_FOLDERS = 6;

/** Reads the journals that Drizzle keeps of a project's migrations: `created_at` of a migration is its `when` there. */
function drizzleNames(folder: string, depth: number): [when: string, name: string][] {
  const journal = path.join(folder, 'meta', '_journal.json');
  const { entries = [] }: { entries?: readonly { when: number; tag: string }[] } = existsSync(journal)
    ? JSON.parse(readFileSync(journal, 'utf8'))
    : {};
  const below = readdirSync(folder, { withFileTypes: true })
    .filter((each) => each.isDirectory() && each.name !== 'node_modules' && !each.name.startsWith('.'))
    .flatMap(({ name }) => (depth > 0 ? drizzleNames(path.join(folder, name), depth - 1) : []));
  return [...entries.map(({ when, tag }): [string, string] => [String(when), tag]), ...below];
}
