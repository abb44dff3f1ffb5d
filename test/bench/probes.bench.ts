import { test } from 'vitest';
import { readUnknownCode } from '../../src/boundary/read-unknown-code.ts';
import { readProbedRelations } from '../../src/observe/probes/probed-relations.ts';
import { readSequences } from '../../src/observe/probes/sequence-probes.ts';
import { keepingSequences, probesOf, tryProbes } from '../../src/observe/probes/try-probes.ts';
import { type Scratch, scratch } from '../helpers/scratch.ts';
import { median, recordFigures } from './figures.ts';

const ROUNDS = 9;
const NO_LIMIT_MS = 600_000;

/** So many tables of a shop, each with a sequence, a second key, a CHECK and a reference, and as many rows. */
const schemaOf = (tables: number, rows: number) =>
  Array.from(
    { length: tables },
    (_, n) => `
CREATE TABLE t${n} (id bigserial PRIMARY KEY, code text NOT NULL UNIQUE, parent bigint REFERENCES t${Math.max(0, n - 1)}, note varchar(200),
  amount numeric CHECK (amount >= 0), added timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON t${n} (parent);
INSERT INTO t${n} (code, parent, note, amount) SELECT 'code ' || v, v, 'note', v FROM generate_series(1, ${rows}) v;`,
  ).join('\n');

test('cost of what is tried on the clone', async () => {
  const rows: Record<string, string | number>[] = [];
  for (const [tables, each] of [
    [20, 100_000],
    [100, 1_000],
  ] as const) {
    const at = await scratch(18, schemaOf(tables, each));
    const rounds: { readonly ms: number; readonly probes: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await tryAll(at));
    const times = rounds.map(({ ms }) => ms);
    rows.push({
      tables,
      'rows of each': each,
      probes: rounds[0]?.probes ?? 0,
      'median ms': Math.round(median(times)),
      'most ms': Math.round(Math.max(...times)),
    });
    await at.drop();
  }
  recordFigures('cost of one pass of the probes on the clone', rows, [
    `Reads the catalogue, finds code that must not run, and tries everything; medians of ${ROUNDS}. It is done before the command and after it.`,
    'There are two passes. Together they may take 5 s, or 5 % of the time of the command if that is longer; a caveat names the probes that did not fit.',
  ]);
}, 600_000);

async function tryAll({ session }: Scratch) {
  const from = performance.now();
  const { names } = await readUnknownCode(session);
  const relations = await readProbedRelations(session, (relation, way) =>
    names.find(relation.split('.').at(-1) ?? '', way),
  );
  await readSequences(session);
  const probes = relations.flatMap(probesOf);
  const { untried } = await keepingSequences(session, () => tryProbes(session, probes, NO_LIMIT_MS));
  if (untried > 0) throw new Error(`${untried} probes were not tried`);
  return { ms: performance.now() - from, probes: probes.length };
}
