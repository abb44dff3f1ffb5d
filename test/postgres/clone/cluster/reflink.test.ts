import { access, readdir, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cluster } from '../../../../src/clone/cluster.ts';
import { openSession } from '../../../../src/postgres/connection/connect.ts';
import { withClient } from '../../../helpers/client.ts';
import { changedUrl, withCloning } from '../../../helpers/cloning.ts';
import { queryClone, withClusterCloning } from '../../../helpers/cluster-cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import { ownFolder, type PlacedServer, placedServer } from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';
import { BALANCES, makeAccounts, startTransfers } from '../../../helpers/transfers.ts';

const MB = 1024 * 1024;
const TRACES = `
SELECT (SELECT count(*)::int FROM pg_replication_slots) AS slots,
       (SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'safemigrate%') AS sessions`;

describe.for([18, 14] as const)('a server of PostgreSQL %i on XFS', async (version) => {
  const obstacle = skipReason(await loopFileSystemObstacle('xfs'));
  let place: LoopFileSystem | undefined;
  let server: PlacedServer;
  let url: string;

  beforeAll(async () => {
    if (obstacle) return;
    place = await loopFileSystem('xfs', 1024 * MB);
    server = await placedServer(version, {
      parent: place.folder,
      make: (_, initdb) => initdb('--data-checksums'),
      settings: { max_wal_size: '200MB' },
    });
    url = changedUrl(server.url, { database: 'app' });
    const elsewhere = path.join(server.folder, 'elsewhere');
    await ownFolder(elsewhere);
    await withClient(server.url, async (client) => {
      await client.query('CREATE DATABASE app');
      await client.query(`CREATE TABLESPACE elsewhere LOCATION '${elsewhere}'`);
    });
    await makeAccounts(url);
    await withClient(url, (client) =>
      client.query('CREATE TABLE placed TABLESPACE elsewhere AS SELECT generate_series(1, 1000) AS i'),
    );
  }, 60_000);

  afterAll(async () => {
    await server?.stop();
    await place?.destroy();
  });

  test.skipIf(obstacle)(
    'is copied while it is written to and tables and databases come and go: nobody notices, and every sum agrees',
    async () => {
      const before = await used(place?.folder ?? '');
      const transfers = await startTransfers(url, 3);
      const coming = comeAndGo(url);
      try {
        await withClusterCloning(url, {}, async ({ assessment, create, sent }) => {
          expect(assessment).toMatchObject({
            strategy: 'reflink',
            bytes: 0,
            stallMs: 0,
            endsSessions: false,
          });
          const clone = await create();
          const started = sent.find(({ sql }) => /pg_(backup_start|start_backup)/.test(sql));
          expect(started?.values[1]).toBe(true);
          expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
          expect(await queryClone(clone, 'SELECT count(*)::int AS n FROM placed')).toEqual([{ n: 1000 }]);
          expect(await queryClone(clone, 'SHOW data_checksums')).toEqual([{ data_checksums: 'on' }]);
          await queryClone(clone, 'INSERT INTO placed VALUES (0)');
          expect(clone.touched.join()).toMatch(
            /immediate checkpoint.*switch to the next WAL segment.*history/,
          );
          expect(await used(place?.folder ?? '')).toBeLessThan(before + 300 * MB);
        });
      } finally {
        coming.stop();
        await coming.ended;
        await transfers.end();
      }
      const { committed, failed } = await transfers.end();
      expect(failed).toBe(0);
      expect(committed).toBeGreaterThan(100);
      await withClient(server.url, async (client) => {
        expect((await client.query(TRACES)).rows).toEqual([{ slots: 0, sessions: 0 }]);
      });
      // The tablespace of the clone was its own.
      await withClient(url, async (client) => {
        expect((await client.query('SELECT min(i) FROM placed')).rows).toEqual([{ min: 1 }]);
      });
      expect((await readdir(server.folder)).filter((name) => name.includes('safemigrate'))).toEqual([]);
    },
  );

  test.skipIf(obstacle)(
    'the copy holds the target and what every server has, while other databases are written to, created and dropped',
    async () => {
      const neighbour = changedUrl(server.url, { database: 'neighbour' });
      await withClient(server.url, (client) => client.query('CREATE DATABASE neighbour'));
      await withClient(neighbour, (client) =>
        client.query(`
          CREATE TABLE filled AS SELECT i, repeat('x', 500) AS x FROM generate_series(1, 50000) AS i;
          CREATE INDEX ON filled (i);
          CREATE TABLE still AS SELECT generate_series(1, 100000) AS i;
          CREATE TABLE placed TABLESPACE elsewhere AS SELECT generate_series(1, 1000) AS i`),
      );
      const transfers = await startTransfers(url, 2);
      const writing = writeAndTruncate(neighbour);
      const coming = comeAndGo(neighbour);
      try {
        await withClusterCloning(url, {}, async ({ assessment, context, create }) => {
          const clone = await create();
          expect(clone.caveats.map(({ reason }) => reason).join()).toContain(
            'of the cluster cannot be connected to in the clone: their files were not copied',
          );
          expect(assessment).toMatchObject({ reason: expect.stringMatching(/its about [\d,]+ files share/) });
          expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
          expect(await queryClone(clone, 'SHOW fsync')).toEqual([{ fsync: 'on' }]);
          expect(await queryClone(clone, 'SHOW lc_messages')).toEqual(
            await withClient(url, async (client) => (await client.query('SHOW lc_messages')).rows),
          );
          const copied = await withClient(neighbour, async (client) => {
            const { rows } = await client.query<{ file: string }>(
              "SELECT pg_relation_filepath('still') AS file",
            );
            return path.join(server.folder, `safemigrate_${context.run}`, 'data', rows[0]?.file ?? '');
          });
          await expect(access(copied)).rejects.toMatchObject({ code: 'ENOENT' });
          await expect(
            openSession({ ...clone.connect, database: 'neighbour' }, { purpose: 'test' }),
          ).rejects.toMatchObject({ cause: { code: '3D000' } });
          await queryClone(clone, 'DROP DATABASE neighbour');
          await queryClone(clone, 'VACUUM');
          await queryClone(clone, 'CHECKPOINT');
        });
      } finally {
        writing.stop();
        coming.stop();
        await Promise.all([writing.ended, coming.ended]);
        await transfers.end();
        await withClient(server.url, (client) => client.query('DROP DATABASE neighbour'));
      }
      expect((await transfers.end()).failed).toBe(0);
    },
  );

  test.skipIf(obstacle)('is looked at, and nothing is left of it', async () => {
    await withCloning(url, {}, async ({ context }) => {
      const before = (await stat(server.folder)).mtimeMs;
      await cluster.assess(context);
      expect((await stat(server.folder)).mtimeMs).toBeGreaterThanOrEqual(before);
      expect(await readdir(server.folder)).toEqual(
        expect.not.arrayContaining([expect.stringContaining('safemigrate')]),
      );
    });
  });

  if (version !== 18) return;

  test.skipIf(obstacle)('is described beforehand by all that is sent and done', async () => {
    // With nothing left to write, a checkpoint that is spread over time ends at once.
    await withClient(server.url, (client) => client.query('CHECKPOINT'));
    await withClusterCloning(url, { checkpoint: 'spread' }, async ({ assessment, context, create, sent }) => {
      // Files that are made in between must not give the plan a second number.
      await withClient(url, (client) =>
        client.query('CREATE TABLE meanwhile (id int PRIMARY KEY, note text)'),
      );
      const plan = await cluster.describe(context, assessment);
      expect([assessment.reason, ...plan].join('\n').match(/[\d,]+ files?\b/g)).toHaveLength(1);
      expect(plan.join('\n')).toContain("pg_backup_start(label => 'safemigrate");
      expect(plan.join('\n')).toContain('fast => false');
      expect(plan.join('\n')).toContain('tablespaces/');
      sent.length = 0;
      await create();
      const statements = sent.filter(
        ({ purpose, sql }) => purpose === 'backup' && /pg_(backup|create)/.test(sql),
      );
      const planned = plan.filter((line) => !line.startsWith('--'));
      expect(planned).toHaveLength(statements.length);
      const [slot, start] = statements;
      expect(planned[0]).toContain(String(slot?.values[0]));
      expect(planned[1]).toContain(String(start?.values[0]));
    });
  });

  test.skipIf(obstacle)('is copied without a slot where none is free', async () => {
    const { max } = await withClient(server.url, async (client) => {
      const { rows } = await client.query("SELECT current_setting('max_replication_slots')::int AS max");
      for (let i = 0; i < rows[0].max; i++)
        await client.query(`SELECT pg_create_physical_replication_slot('taken_${i}')`);
      return rows[0] as { max: number };
    });
    try {
      await withClusterCloning(url, {}, async ({ create, sent }) => {
        const clone = await create();
        expect(await queryClone(clone, BALANCES)).toEqual([{ sum: 0, count: 2000 }]);
        expect(sent.some(({ sql }) => sql.includes('pg_create_physical_replication_slot'))).toBe(false);
        await expect(access(path.join(server.data, 'pg_replslot', 'taken_0'))).resolves.toBeUndefined();
      });
    } finally {
      await withClient(server.url, async (client) => {
        for (let i = 0; i < max; i++) await client.query(`SELECT pg_drop_replication_slot('taken_${i}')`);
      });
    }
  });
});

async function used(folder: string): Promise<number> {
  const { blocks, bfree, bsize } = await statfs(folder);
  return (blocks - bfree) * bsize;
}

/** WAL of a database that is not copied: pages written, files truncated and files replaced. */
function writeAndTruncate(url: string): { stop(): void; ended: Promise<void> } {
  let running = true;
  const ended = withClient(url, async (client) => {
    while (running) {
      await client.query('UPDATE filled SET i = i + 1 WHERE i % 50 = 0');
      await client.query('DELETE FROM filled WHERE i > 40000');
      await client.query('VACUUM filled');
      await client.query(
        "INSERT INTO filled SELECT i, repeat('y', 500) FROM generate_series(40001, 50000) AS i",
      );
      await client.query('TRUNCATE placed; INSERT INTO placed SELECT generate_series(1, 1000)');
    }
  });
  return { stop: () => (running = false), ended };
}

/** Files of relations that vanish under the one who copies. */
function comeAndGo(url: string): { stop(): void; ended: Promise<void> } {
  let running = true;
  const ended = withClient(url, async (client) => {
    for (let i = 0; running; i++) {
      await client.query(
        `CREATE TABLE passing AS SELECT generate_series(1, 2000) AS i; TRUNCATE passing; DROP TABLE passing`,
      );
      if (i % 10 === 0) {
        await client.query('CREATE DATABASE passing');
        await client.query('DROP DATABASE passing');
      }
    }
  });
  return { stop: () => (running = false), ended };
}
