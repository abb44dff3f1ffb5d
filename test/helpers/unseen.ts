import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../../fixtures/unseen', import.meta.url));

/** A shop with a role of its application. */
export const UNSEEN_SETUP = readFileSync(path.join(FOLDER, 'setup.sql'), 'utf8');

/** An example that was written before anybody looked at how it is judged. */
export interface UnseenExample {
  readonly name: string;
  /** Where the advice or the incident is from. */
  readonly source: string;
  readonly sql: string;
}

/** `-- name | source` begins an example. */
export function unseenExamples(kind: 'dangerous' | 'safe'): UnseenExample[] {
  return readFileSync(path.join(FOLDER, `${kind}.sql`), 'utf8')
    .split(/^-- (?=\S+ \| )/m)
    .slice(1)
    .map((text) => {
      const [header = '', ...lines] = text.split('\n');
      const [name = '', source = ''] = header.split(' | ');
      return { name, source, sql: lines.join('\n') };
    });
}
