import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { fillForLoad, type Load, pgbenchObstacle, SUMS, startLoad } from '../helpers/pgbench.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { inThisShare } from '../helpers/share.ts';

const MB = 2 ** 20;
const CLIENTS = 8;
/** As many as they can would leave no processor to the rehearsal. */
const PER_SECOND = 500;

/** A migration that fails unless all sums agree, as they do after every transaction. */
const AGREES = `${SUMS} INTO found;
  IF found.moves = 0 OR found.accounts <> found.history OR found.tellers <> found.history OR found.branches <> found.history
  THEN RAISE 'the clone is not consistent: %', found; END IF`;
const MIGRATION = sqlCommand(
  `DO $$ DECLARE found record; BEGIN ${AGREES}; END $$; ALTER TABLE pgbench_accounts ADD COLUMN note text`,
);

const skipped = skipReason(await loopFileSystemObstacle('xfs')) || skipReason(await pgbenchObstacle());

const SHARE = inThisShare([18, 15] as const);

describe.skipIf(skipped).each(SHARE)('a busy target of PostgreSQL %d, on XFS', (version) => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;
  let load: Load;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 1024 * MB);
    server = await placedServer(version, { parent: disk.folder, settings: { max_wal_size: '100MB' } });
    url = changedUrl(server.url, { database: 'bank' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE bank'));
    await fillForLoad(url, 4);
    load = await startLoad(url, CLIENTS, PER_SECOND);
  }, 60_000);

  afterAll(async () => {
    await load?.end();
    await server?.stop();
    await disk?.destroy();
  });

  test('is rehearsed on a consistent copy of its cluster, with no flags, and nobody there notices', {
    timeout: 180_000,
  }, async () => {
    const sessions = await load.sessions();
    const { report, exitCode, stderr } = await rehearse(url, MIGRATION, {
      env: { SAFEMIGRATE_CLONE: 'auto' },
    });
    expect(exitCode, stderr).toBe(0);
    expect(report.clone).toMatchObject({ method: 'cluster', strategy: 'reflink', isolation: 'own-cluster' });
    expect(report.target.changes).toEqual([]);
    expect(report.cleanup.failed).toEqual([]);

    expect(await load.sessions()).toEqual(sessions);
    const { transactions, errors } = await load.end();
    expect(errors).toBe('');
    expect(transactions.length).toBeGreaterThan(0);
    expect(transactions.filter(({ durationMs }) => Number.isNaN(durationMs))).toEqual([]);
    const log = await readFile(path.join(server.folder, 'log'), 'utf8');
    expect(log.match(/^.*(ERROR|FATAL|PANIC):.*$/gm) ?? []).toEqual([]);
  });
});
