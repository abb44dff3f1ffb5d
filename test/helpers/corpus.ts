import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Kind } from './hazard-fixtures.ts';

const FOLDER = fileURLToPath(new URL('../../fixtures/corpus', import.meta.url));

export const CORPUS_SETUP = readFileSync(path.join(FOLDER, 'setup.sql'), 'utf8');

/** An example after a rule of a public catalogue. */
export interface CorpusExample {
  /** The catalogue and its rule: `squawk: ban-drop-column`. */
  readonly source: string;
  readonly sql: string;
  /** Codes of which one has to be told; none for a good example. */
  readonly expects: readonly string[];
  /** Where its tables are. */
  readonly schema: string;
}

/** `-- rule => CODE | CODE` begins an example, and `-- rule` one that is good. */
export function corpusExamples(kind: Kind): CorpusExample[] {
  const files = readdirSync(path.join(FOLDER, kind)).sort();
  const found = files.flatMap((file) =>
    readFileSync(path.join(FOLDER, kind, file), 'utf8')
      .split(/^-- /m)
      .slice(1)
      .map((text) => {
        const [header = '', ...lines] = text.split('\n');
        const [rule = '', codes = ''] = header.split(' => ');
        return {
          source: `${path.basename(file, '.sql')}: ${rule}`,
          sql: lines.join('\n'),
          expects: codes.split('|').flatMap((code) => (code.trim() === '' ? [] : [code.trim()])),
        };
      }),
  );
  return found.map((example, index) => {
    const schema = `${kind}_${index}`;
    return { ...example, schema, sql: example.sql.replaceAll(':schema', schema) };
  });
}
