import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServerVersion } from '../../src/local-server/binaries.ts';

const FOLDER = fileURLToPath(new URL('../../fixtures/hazards', import.meta.url));

export type Kind = 'bad' | 'good';

export interface HazardFixture {
  readonly code: string;
  /** The code, or where a hazard has several pairs of examples the code and what tells them apart: `CODE-new-column`. */
  readonly name: string;
  /** Where its tables are: hazards are told apart by it. */
  readonly schema: string;
  /** Missing where there is none. */
  readonly files: Readonly<Partial<Record<Kind, string>>>;
  /** Makes its tables, in a session whose search_path is its schema. */
  readonly setup: string;
  /** Folder of files that lie where the command runs; missing where there is none. */
  readonly migrations?: string;
  /** Queries of the application, by which it is met. */
  readonly queries: string;
  /** Major version of PostgreSQL from which it can be met. */
  readonly from: number;
}

/** `-- from PostgreSQL 15`, in the fixture's own setup. */
const FROM = /^-- from PostgreSQL (\d+)$/m;

export function hazardFixtures(): HazardFixture[] {
  const shared = readFileSync(path.join(FOLDER, 'setup.sql'), 'utf8');
  const folders = readdirSync(FOLDER, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.map(({ name }) => {
    const [code = name] = name.split('-');
    const at = (file: string) => path.join(FOLDER, name, file);
    const read = (file: string) => (existsSync(at(file)) ? readFileSync(at(file), 'utf8') : '');
    const own = read('setup.sql');
    return {
      code,
      name,
      schema: name.toLowerCase().replaceAll('-', '_'),
      files: {
        ...(existsSync(at('bad.sql')) ? { bad: at('bad.sql') } : {}),
        ...(existsSync(at('good.sql')) ? { good: at('good.sql') } : {}),
      },
      ...(existsSync(at('migrations')) ? { migrations: at('migrations') } : {}),
      setup: shared + own,
      queries: read('queries.sql'),
      from: Number(FROM.exec(own)?.[1] ?? 0),
    };
  });
}

export function fixturesFor(version: ServerVersion): HazardFixture[] {
  return hazardFixtures().filter(({ from }) => version >= from);
}
