import { rm } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import { SafemigrateError } from '../errors.ts';
import { withoutPassword } from '../postgres/connection/connection-text.ts';
import { type Cleaning, cleanEach } from './clean.ts';
import { absolutePath } from './folder-records.ts';
import { livenessOf, processStampSchema } from './process-stamp.ts';
import { type RunId, runIdSchema } from './run-id.ts';
import { runShell } from './shell-command.ts';
import { readStateFiles, stateFolder, type UnreadableFile, writeStateFile } from './state-files.ts';

/**
 * A clone that the user's own command makes elsewhere, as this user's state folder records it: written before the
 * command runs, removed after the other command has removed the clone. The URL is without its password.
 */
const externalEntry = z.object({
  version: z.literal(1),
  run: runIdSchema,
  /** The shell command that removes the clone, and the folder that it runs in. */
  destroy: z.string(),
  folder: absolutePath,
  target: z.object({ host: z.string(), port: z.string(), database: z.string() }),
  /** URL that the command printed; empty until then, and until it was checked that this is not the target. */
  url: z.string(),
  kept: z.boolean(),
  owner: processStampSchema,
});

export type ExternalEntry = Readonly<z.infer<typeof externalEntry>>;

const DESTROY_TIMEOUT_MS = 10 * 60_000;

function externalFolder(): string {
  return path.join(stateFolder(), 'external');
}

function fileOf(run: RunId): string {
  return path.join(externalFolder(), `${run}.json`);
}

/** Writes a record. @throws SafemigrateError `CONFIGURATION` */
export async function writeExternal(written: ExternalEntry): Promise<void> {
  await writeStateFile(fileOf(written.run), { ...written, url: withoutPassword(written.url) });
}

/** The environment of both commands. */
export function externalVariables({ run, target }: Pick<ExternalEntry, 'run' | 'target'>) {
  return {
    SAFEMIGRATE_RUN: run,
    SAFEMIGRATE_TARGET_HOST: target.host,
    SAFEMIGRATE_TARGET_PORT: target.port,
    SAFEMIGRATE_TARGET_DATABASE: target.database,
  };
}

/** Runs the command that removes the clone, and removes the record if that succeeds. @throws SafemigrateError `CLONE` */
export async function destroyExternal(found: ExternalEntry): Promise<void> {
  const { failure } = await runShell({
    command: found.destroy,
    folder: found.folder,
    variables: { ...externalVariables(found), SAFEMIGRATE_CLONE_URL: found.url },
    timeoutMs: DESTROY_TIMEOUT_MS,
  });
  if (failure !== null) {
    throw new SafemigrateError('CLONE', `--clone-destroy for run ${found.run} ${failure}`, {
      hint: 'Remove the clone yourself, or run `safemigrate clean`, which tries again.',
    });
  }
  await rm(fileOf(found.run), { force: true });
}

export interface ExternalClone {
  readonly entry: ExternalEntry;
  readonly state: 'alive' | 'kept' | 'dead' | 'unknown';
}

export async function externalClones(): Promise<(ExternalClone | UnreadableFile)[]> {
  const entries = await readStateFiles(externalFolder(), externalEntry);
  return Promise.all(
    entries.map(async (each): Promise<ExternalClone | UnreadableFile> => {
      if ('unreadable' in each) return each;
      return { entry: each, state: each.kept ? 'kept' : await livenessOf(each.owner) };
    }),
  );
}

/** Removes the clones of dead runs; kept ones only if `kept` is set. */
export async function cleanExternals({ kept }: { kept: boolean }): Promise<Cleaning> {
  return cleanEach(
    await externalClones(),
    (found) =>
      'entry' in found
        ? `external clone of ${found.entry.target.database}, run ${found.entry.run}`
        : found.file,
    (found) => reasonToLeave(found, kept),
    async (found) => {
      if ('entry' in found) await destroyExternal(found.entry);
      return true;
    },
  );
}

function reasonToLeave(found: ExternalClone | UnreadableFile, clearsKept: boolean): string | null {
  if ('unreadable' in found) return `it cannot be read: ${found.unreadable}`;
  const { state } = found;
  if (state === 'alive') return 'its run is still alive';
  if (state === 'unknown') return 'it is not known here whether its run is alive';
  if (state === 'kept' && !clearsKept) return 'it was kept on request; `safemigrate clean --kept` removes it';
  return null;
}
