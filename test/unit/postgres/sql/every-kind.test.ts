import { expect, test } from 'vitest';
import { classifyScope } from '../../../../src/boundary/statement-scope.ts';
import {
  actionsOf,
  changesLocksOfDml,
  changesReading,
  concurrentFailure,
  effectOf,
  inBlock,
  isHarmlessElsewhere,
  mayRunUserCode,
  namedLocks,
  nameOfStatement,
  outsideMadeBy,
  saysNowait,
} from '../../../../src/postgres/sql/classify-statement.ts';
import { parseText } from '../../../../src/postgres/sql/parse.ts';
import { JUDGED_STATEMENTS } from '../../../helpers/judged-statements.ts';

const NAMES = { target: 'shop', clone: 'copy', made: (name: string) => name === 'shadow' };

async function parsed(sql: string) {
  const [statement, ...more] = (await parseText(Buffer.from(sql))) ?? [];
  if (!statement || more.length > 0) throw new Error(`not one statement: ${sql}`);
  return statement;
}

const DEFAULTS: ReadonlySet<unknown> = new Set([
  '[]',
  'false',
  'null',
  '{"kind":"within"}',
  '"same"',
  '"ordinary"',
]);

/** Lists what is decided about a statement, but for what most statements have. */
async function decided(sql: string): Promise<string[]> {
  const { node, role, lockKind } = await parsed(sql);
  const [reach, reachOfCode] = [NAMES, { target: 'shop', clone: 'copy' }].map((names) =>
    classifyScope(node, names),
  );
  const decisions: Record<string, unknown> = {
    reach,
    'reach of code': JSON.stringify(reach) === JSON.stringify(reachOfCode) ? null : reachOfCode,
    outside: outsideMadeBy(node),
    'runs code': mayRunUserCode(node),
    elsewhere: isHarmlessElsewhere(node),
    effect: effectOf(node),
    role,
    block: inBlock(node),
    concurrent: concurrentFailure(node),
    nowait: saysNowait(node),
    reading: changesReading(node),
    names: changesLocksOfDml(node),
    actions: actionsOf(node),
    locks: namedLocks(node),
    'lock kind': lockKind,
  };
  return [
    `${nameOfStatement(node)}: ${sql}`,
    ...Object.entries(decisions)
      .map(([what, value]) => [what, JSON.stringify(value ?? null)])
      .filter(([, value]) => !DEFAULTS.has(value))
      .map(([what, value]) => `    ${what}: ${value}`),
  ];
}

test('judges the statements of every kind as recorded', async () => {
  const lists = await Promise.all(JUDGED_STATEMENTS.map(decided));
  await expect(`${lists.flat().join('\n')}\n`).toMatchFileSnapshot('snapshots/every-kind.txt');
});
