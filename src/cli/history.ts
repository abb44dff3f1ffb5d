import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { Report } from '../model/report.ts';
import { parseRunId } from '../ownership/run-id.ts';
import { makeStateFolder, namesIn, stateFolder } from '../ownership/state-files.ts';
import { overwriteFile } from '../rehearsal/write-whole.ts';

/** Reports of earlier runs, for this user alone; passwords are in none. */
const KEPT = 100;

function folder(): string {
  return path.join(stateFolder(), 'runs');
}

/** Stores the report beside those of earlier runs, and deletes the oldest. @returns why it could not be stored, if so. */
export async function keepReport(report: Report): Promise<string | undefined> {
  try {
    await makeStateFolder(folder());
    overwriteFile(fileOf(report.run.id), JSON.stringify(report), 0o600);
    const names = await runs();
    await Promise.all(
      names.slice(0, Math.max(0, names.length - KEPT)).map((run) => rm(fileOf(run), { force: true })),
    );
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

function fileOf(run: string): string {
  return path.join(folder(), `${run}.json`);
}

/** Ids of the runs that are kept, the oldest first: they sort by time. */
export async function runs(): Promise<string[]> {
  const names = await namesIn(folder());
  return names
    .filter((name) => name.endsWith('.json'))
    .map((name) => name.slice(0, -'.json'.length))
    .filter((run) => parseRunId(run) !== undefined)
    .sort();
}

/** Reads a stored report. @param run default: the last one. @throws SafemigrateError `USAGE` if there is no such report. */
export async function readReport(run?: string): Promise<Report> {
  const known = await runs();
  const wanted = run ?? known.at(-1);
  if (wanted === undefined || !known.includes(wanted)) {
    throw new SafemigrateError(
      'USAGE',
      wanted === undefined ? 'No report is kept yet.' : `No report of run ${wanted} is kept.`,
      {
        hint:
          known.length === 0 ? 'Every run keeps its own.' : `The last ones: ${known.slice(-5).join(', ')}`,
      },
    );
  }
  try {
    return JSON.parse(await readFile(fileOf(wanted), 'utf8')) as Report;
  } catch (cause) {
    throw new SafemigrateError(
      'CONFIGURATION',
      `The report of run ${wanted} cannot be read: ${messageOf(cause)}.`,
      {
        cause,
      },
    );
  }
}
