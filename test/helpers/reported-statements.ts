import type { StatementSection } from '../../src/model/statement-model.ts';
import { LockReader } from '../../src/observe/locks.ts';
import { withLocksByRule } from '../../src/observe/locks-by-rule.ts';
import { readBodies, readProcedures } from '../../src/observe/locks-in-bodies.ts';
import { allRelations, givenRelations, namesOf } from '../../src/observe/relation-names.ts';
import { type ActivitySample, Sampler } from '../../src/observe/sampler.ts';
import { statementFacts } from '../../src/observe/statement-facts.ts';
import { StatementLog } from '../../src/observe/statements.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import type { TemporaryDatabase } from './database.ts';
import { withProxy } from './proxy.ts';

/** What the report says of the statements that `use` sends through a proxy. */
export async function reportedStatements(
  database: TemporaryDatabase,
  use: (url: string) => Promise<void>,
): Promise<{ statements: StatementSection[]; samples: ActivitySample[] }> {
  const settings = parseSettings(database.url, readEnvironment({}, '/'));
  const connect = () => openSession(settings, { purpose: 'observe', database: 'postgres' });
  const inDatabase = async <T>(read: (session: Awaited<ReturnType<typeof connect>>) => Promise<T>) => {
    const session = await openSession(settings, { purpose: 'inspect' });
    try {
      return await read(session);
    } finally {
      await session.close();
    }
  };
  const log = new StatementLog();
  const samples: ActivitySample[] = [];
  const sampler = new Sampler(connect, (sample) => {
    samples.push(sample);
    log.sample(sample.statement, sample.locks);
  });
  const reader = new LockReader(connect);
  const observer = (event: Parameters<typeof log.observe>[0]) => {
    log.observe(event);
    sampler.observe(event);
  };
  const before = await inDatabase(allRelations);
  await withProxy(database.url, { observer, readLocks: reader.read }, ({ url }) => use(url));
  await sampler.close();
  await reader.close();
  const statements = await inDatabase(async (session) => {
    const [row] = await session.query<{ oid: string }>(
      'SELECT oid::int8 FROM pg_database WHERE datname = current_database()',
    );
    const oid = Number(row?.oid);
    const tree = new Map([...before, ...(await givenRelations(session, log.relations(oid)))]);
    const section = log.section(oid, namesOf(tree));
    const parsed = await statementFacts(section);
    const bodies = await readBodies(section, parsed, await readProcedures(session));
    return withLocksByRule(section, { parsed, tree, made: new Set(), searchPath: ['public'], bodies });
  });
  return { statements, samples };
}
