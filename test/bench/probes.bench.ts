import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readUnknownCode } from '../../src/boundary/read-unknown-code.ts';
import { readBodiesBefore } from '../../src/observe/effects/body-failures.ts';
import { readProbedRelations } from '../../src/observe/probes/probed-relations.ts';
import { readSequences } from '../../src/observe/probes/sequence-probes.ts';
import { keepingSequences, probesOf, tryProbes } from '../../src/observe/probes/try-probes.ts';
import { type Scratch, scratch } from '../helpers/scratch.ts';
import { median, recordFigures } from './figures.ts';

const ROUNDS = 9;
const NO_LIMIT_MS = 600_000;

/** A role without any right but these, as which each probe is tried, then. */
const ROLE = 'bench_probes_app';
const GRANTS = `CREATE ROLE ${ROLE} LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO ${ROLE}; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ${ROLE};`;

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
  for (const [tables, each, role] of [
    [20, 100_000, 'superuser'],
    [20, 100_000, 'application'],
    [100, 1_000, 'superuser'],
  ] as const) {
    const at = await scratch(18, `${schemaOf(tables, each)}${role === 'application' ? GRANTS : ''}`);
    const rounds: Awaited<ReturnType<typeof tryAll>>[] = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await tryAll(at));
    const times = rounds.map(({ ms }) => ms);
    expect(rounds[0]?.roles).toEqual([role === 'application' ? ROLE : null]);
    rows.push({
      tables,
      'rows of each': each,
      role,
      probes: rounds[0]?.probes ?? 0,
      'median ms': Math.round(median(times)),
      'most ms': Math.round(Math.max(...times)),
      'processor ms': Math.round(median(rounds.map(({ processorMs }) => processorMs))),
    });
    if (role === 'application') await at.session.query(`DROP OWNED BY ${ROLE}; DROP ROLE ${ROLE}`);
    await at.drop();
  }
  recordFigures('cost of one pass of the probes on the clone', rows, [
    `Reads the catalogue, finds code that must not run, and tries everything; medians of ${ROUNDS}. It is done before the command and after it.`,
    'The time on processors is that of both sides, which other work on the machine does not lengthen. An application has a role that owns nothing.',
    'There are two passes. Together they may take 5 s, or 5 % of the time of the command if that is longer; a caveat names the probes that did not fit.',
  ]);
}, 600_000);

/** So many functions in PL/pgSQL over ten tables, each with the statements that such functions have. */
const functionsOf = (count: number) =>
  Array.from(
    { length: count },
    (_, n) => `
CREATE FUNCTION f${n}(wanted bigint, lowest numeric DEFAULT 0) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE total numeric := 0; found_note text; one t${n % 10}%ROWTYPE;
BEGIN
  SELECT note INTO found_note FROM t${n % 10} WHERE id = wanted;
  IF found_note IS NULL THEN
    INSERT INTO t${n % 10} (code, note) VALUES ('none ' || wanted, 'none');
    RETURN NULL;
  END IF;
  FOR one IN SELECT * FROM t${n % 10} WHERE parent = wanted AND amount >= lowest LOOP
    total := total + coalesce(one.amount, 0);
    UPDATE t${n % 10} SET note = found_note WHERE id = one.id AND note IS DISTINCT FROM found_note;
  END LOOP;
  RETURN (SELECT sum(amount) FROM t${n % 10} WHERE parent = wanted) + total;
END $$;`,
  ).join('\n');

test('cost of analyzing the bodies of functions', async () => {
  const rows: Record<string, string | number>[] = [];
  for (const functions of [50, 150, 500]) {
    const at = await scratch(18, `${schemaOf(10, 10)}${functionsOf(functions)}`);
    const rounds: { ms: number; analyzed: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const from = performance.now();
      const { size } = await readBodiesBefore(at.session);
      rounds.push({ ms: performance.now() - from, analyzed: size });
    }
    rows.push({
      functions,
      analyzed: Math.min(...rounds.map(({ analyzed }) => analyzed)),
      'median ms': Math.round(median(rounds.map(({ ms }) => ms))),
      'most ms': Math.round(Math.max(...rounds.map(({ ms }) => ms))),
    });
    await at.drop();
  }
  recordFigures('cost of analyzing the bodies of functions in PL/pgSQL on the clone', rows, [
    `Before the command, medians of ${ROUNDS}; after it only those are analyzed that mention what has changed. Each has ten queries and expressions.`,
    'It may take 1 s; functions that no time is left for are not analyzed.',
  ]);
}, 600_000);

async function tryAll({ session }: Scratch) {
  const from = performance.now();
  const spent = processorTime(session);
  const { names } = await readUnknownCode(session);
  const relations = await readProbedRelations(session, (relation, way) =>
    names.find(relation.split('.').at(-1) ?? '', way),
  );
  await readSequences(session);
  const probes = relations.flatMap(probesOf);
  const { untried } = await keepingSequences(session, () => tryProbes(session, probes, NO_LIMIT_MS));
  if (untried > 0) throw new Error(`${untried} probes were not tried`);
  return {
    ms: performance.now() - from,
    processorMs: processorTime(session) - spent,
    probes: probes.length,
    roles: [...new Set(probes.map(({ role }) => role))],
  };
}

const TICK_MS = 10;

/** Time on a processor of this process and the session's backend, which other work on the machine does not lengthen. */
function processorTime({ pid }: Scratch['session']): number {
  const { user, system } = process.cpuUsage();
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return (user + system) / 1000 + (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
