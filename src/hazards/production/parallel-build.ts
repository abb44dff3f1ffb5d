import type { Profile } from '../../model/profile-model.ts';

/** The server's defaults: min_parallel_table_scan_size, and what each process must have of maintenance_work_mem. */
const FIRST_WORKER_BYTES = 8 * 2 ** 20;
const PROCESS_KB = 32 * 1024;

/** Two processes build an index in 0.6 of the time of one (docs/benchmarks.md): they share the disk and the memory. */
const GAIN = 0.7;

/**
 * Returns by how much faster than one process the server builds a b-tree index on a table of this size, by its rules for the number of
 * workers (plan_create_index_workers). Whether it has processors for them is not known.
 */
export function speedOfBuild(bytes: number, settings: Profile['settings']): number {
  const most = Number(settings.max_parallel_maintenance_workers ?? 0);
  const memoryKb = Number.parseInt(settings.maintenance_work_mem ?? '', 10);
  const bySize =
    bytes < FIRST_WORKER_BYTES ? 0 : 1 + Math.floor(Math.log(bytes / FIRST_WORKER_BYTES) / Math.log(3));
  const byMemory = Math.floor(memoryKb / PROCESS_KB) - 1;
  const workers = Math.max(0, Math.min(most, bySize, byMemory));
  return (1 + (Number.isNaN(workers) ? 0 : workers)) ** GAIN;
}
