import { rm } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod/mini';
import { livenessOf, processStampSchema } from '../../ownership/process-stamp.ts';
import { runIdSchema } from '../../ownership/run-id.ts';
import {
  readStateFiles,
  stateFolder,
  type UnreadableFile,
  writeStateFile,
} from '../../ownership/state-files.ts';
import { SERVICE_IDS, serviceOf } from './service-list.ts';

/** A clone at a service, as this user's state folder records it: written before it is made, removed after it. No URL, no login. */
const serviceEntry = z.object({
  version: z.literal(1),
  run: runIdSchema,
  service: z.enum(SERVICE_IDS),
  source: z.readonly(z.array(z.string())),
  name: z.string(),
  target: z.object({ host: z.string(), port: z.number(), database: z.string() }),
  kept: z.boolean(),
  owner: processStampSchema,
});

export type ServiceEntry = Readonly<z.infer<typeof serviceEntry>>;

export interface RecordedService {
  readonly entry: ServiceEntry;
  /** The name of the service for people. */
  readonly title: string;
  readonly state: 'alive' | 'kept' | 'dead' | 'unknown';
}

function folder(): string {
  return path.join(stateFolder(), 'services');
}

function fileOf({ run }: Pick<ServiceEntry, 'run'>): string {
  return path.join(folder(), `${run}.json`);
}

/** Writes a record. @throws SafemigrateError `CONFIGURATION` */
export function writeServiceEntry(entry: ServiceEntry): Promise<void> {
  return writeStateFile(fileOf(entry), entry);
}

export function removeServiceEntry(entry: Pick<ServiceEntry, 'run'>): Promise<void> {
  return rm(fileOf(entry), { force: true });
}

export async function recordedServices(): Promise<(RecordedService | UnreadableFile)[]> {
  const entries = await readStateFiles(folder(), serviceEntry);
  return Promise.all(
    entries.map(async (entry) => {
      if ('unreadable' in entry) return entry;
      const { title } = await serviceOf(entry.service);
      return { entry, title, state: entry.kept ? ('kept' as const) : await livenessOf(entry.owner) };
    }),
  );
}
