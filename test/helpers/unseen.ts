import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const FIXTURES = fileURLToPath(new URL('../../fixtures', import.meta.url));

/** A folder of fixtures: `unseen` has a file for each kind, the others a file for each example. */
export type UnseenSet = 'unseen' | 'blind' | 'fresh' | 'hospital' | 'parcels' | 'carrier' | 'freight';

/** An example that was written before anybody looked at how it is judged. */
export interface UnseenExample {
  readonly name: string;
  /** Where the advice or the incident is from. */
  readonly source: string;
  readonly sql: string;
}

/** Sets on the database of `parcels`. */
const OF_PARCELS: readonly UnseenSet[] = ['carrier', 'freight'];

/** A database of an application, with its roles. */
export function unseenSetup(set: UnseenSet): string {
  return readFileSync(path.join(FIXTURES, OF_PARCELS.includes(set) ? 'parcels' : set, 'setup.sql'), 'utf8');
}

export function unseenExamples(set: UnseenSet, kind: 'dangerous' | 'safe'): UnseenExample[] {
  const place = path.join(FIXTURES, set, kind);
  return set === 'unseen' ? examplesOfFile(`${place}.sql`) : examplesOfFolder(place);
}

/** `-- name | source` begins an example. */
function examplesOfFile(file: string): UnseenExample[] {
  return readFileSync(file, 'utf8')
    .split(/^-- (?=\S+ \| )/m)
    .slice(1)
    .map((text) => {
      const [header = '', ...lines] = text.split('\n');
      const [name = '', source = ''] = header.split(' | ');
      return { name, source, sql: lines.join('\n') };
    });
}

/** The source is the first line, `-- Source: …`; that of a dangerous one is followed by `-- danger: …`. */
function examplesOfFolder(folder: string): UnseenExample[] {
  return readdirSync(folder)
    .sort()
    .map((file) => {
      const sql = readFileSync(path.join(folder, file), 'utf8');
      return { name: path.basename(file, '.sql'), source: sql.match(/^-- Source: (.*)/)?.[1] ?? '', sql };
    });
}
