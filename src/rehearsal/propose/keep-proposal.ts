import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { nameTarget } from '../../ownership/folder-records.ts';
import { migrationFiles } from '../../propose/formats/migration-files.ts';
import type { ToolFormat } from '../../propose/formats/proposal-format.ts';
import { recordedMigration } from '../../propose/formats/recorded-migration.ts';
import type { RecordedMigration } from '../../propose/formats/safer-migration.ts';
import type { KeptStatement } from '../../propose/kept-statements.ts';
import { renderScript, type ScriptPart } from '../../propose/write-script.ts';
import type { RehearsalPlan } from '../plan.ts';
import type { CloneSetup } from '../run-on-clone.ts';
import { writeFileWhole, writeFolderWhole } from '../write-whole.ts';

/** The migration whose place the proposal takes, in the format of a tool. */
export interface ProposedMigration {
  readonly format: ToolFormat;
  readonly recorded: RecordedMigration;
}

/** A script that is proved. */
interface Proposal {
  readonly file: string;
  readonly parts: readonly ScriptPart[];
  readonly tolerated: readonly string[];
  /** null: it is written as plain SQL. */
  readonly migration: ProposedMigration | null;
}

/** @throws Error in words for the user if a tool's format is asked for, and cannot be written */
export function migrationOf(
  { proposeFormat: format }: RehearsalPlan,
  kept: readonly KeptStatement[],
): ProposedMigration | null {
  return format === 'plain' ? null : { format, recorded: recordedMigration(kept, format) };
}

/** Writes the proposal, whole or not at all. @throws Error if something of its name is there */
export async function keepProposal(
  { plan: { command }, context: { target } }: CloneSetup,
  { file, parts, tolerated, migration }: Proposal,
): Promise<void> {
  const of = nameTarget(target);
  const proof = [
    'It was run on a clone, and left the same schema and the same rows as the migration did on another.',
    ...(tolerated.length > 0 ? [`Not compared, since any two runs differ: ${tolerated.join('; ')}`] : []),
  ];
  if (migration === null) {
    await writeFileWhole(file, renderScript(parts, headingOf(proof)), of);
    return;
  }
  const { format, recorded } = migration;
  const heading = [
    `A safer form of ${recorded.name}, written by safemigrate --propose.`,
    ...proof,
    `It takes the place of ${recorded.name} in the project, which is to be taken out of it.`,
    '',
  ];
  const isModule = isModuleIn(command.folder);
  await writeFolderWhole(file, await migrationFiles(format, { recorded, parts, heading, isModule }), of);
}

function headingOf(proof: readonly string[]): string[] {
  return [
    'A safer form of a migration, written by safemigrate --propose.',
    ...proof,
    '',
    'Run it with: psql -v ON_ERROR_STOP=1 -f FILE, not in a transaction (-1).',
    'If it stops, what stands before the failed statement is done: mend the cause, and go on from there.',
    'What the migration tool records about itself is part of it: the tool will find the migration applied.',
  ];
}

/** Whether a file ending in `.js` is a module of ECMAScript there, by the nearest package.json. */
function isModuleIn(folder: string): boolean {
  const file = path.join(folder, 'package.json');
  if (!existsSync(file)) return path.dirname(folder) !== folder && isModuleIn(path.dirname(folder));
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as { type?: unknown }).type === 'module';
  } catch {
    return false;
  }
}
