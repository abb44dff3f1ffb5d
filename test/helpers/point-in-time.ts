import { readdir } from 'node:fs/promises';
import { expect } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Report } from '../../src/model/report.ts';
import { sqlCommand } from './cli.ts';
import { withClient } from './client.ts';
import { until } from './cutting.ts';
import { programsOf } from './own-server.ts';
import type { PlacedServer } from './placed-server.ts';
import { rehearse } from './rehearse.ts';
import { majorOf } from './servers.ts';

/** Prints the rows of the table `event`. */
export const NOTES = sqlCommand("SELECT string_agg(note, ',' ORDER BY id) AS notes FROM event");

/** Names the programs of this version, if they are those of 19 in place of 18: nothing looks for them where they are. */
export async function namingPrograms(version: ServerVersion): Promise<NodeJS.ProcessEnv> {
  return majorOf(version) === version ? {} : { PGBIN: await programsOf(version) };
}

/** Settings of a server that archives its WAL in this folder. */
export function archivingIn(folder: string): Record<string, string> {
  return { archive_mode: 'on', archive_command: `cp %p ${folder}/%f` };
}

/**
 * Snapshots the server before one row and after none, and rehearses as of a time between two rows: the first of them is seen.
 * @param take takes the snapshot, and returns the arguments that name it.
 */
export async function expectRowsOfThatTime(
  server: PlacedServer,
  archive: string,
  take: () => Promise<string[]>,
): Promise<Report> {
  return withClient(server.url, async (client) => {
    await client.query('CREATE TABLE event (id serial PRIMARY KEY, note text)');
    const snapshot = await take();
    await client.query("INSERT INTO event (note) VALUES ('early')");
    const { rows } = await client.query<{ now: string }>('SELECT clock_timestamp()::text AS now');
    await client.query("INSERT INTO event (note) VALUES ('late')");
    const last = await client.query<{ file: string }>('SELECT pg_walfile_name(pg_switch_wal()) AS file');
    await until('all WAL is archived', async () =>
      (await readdir(archive)).includes(last.rows[0]?.file ?? ''),
    );
    const at = ['--clone-at', rows[0]?.now ?? ''];
    const { report, stderr } = await rehearse(server.url, NOTES, {
      args: [...at, ...snapshot],
      env: {
        SAFEMIGRATE_CLONE: 'auto',
        SAFEMIGRATE_RESTORE_COMMAND: `cp ${archive}/%f "%p"`,
        ...(await namingPrograms(18)),
      },
    });
    expect(stderr).toMatch(/early(?!,late)/);
    expect(stderr).not.toContain('early,late');
    return report;
  });
}
