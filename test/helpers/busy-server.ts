import { Client } from 'pg';
import type { Server } from '../../src/local-server/embedded.ts';
import { withClient } from './client.ts';
import { withDatabase } from './target-state.ts';

/** Somebody who is at work on a server, and stops when he is asked to. */
export interface Disturbance {
  /** How often each thing was done. */
  readonly done: Readonly<Record<string, number>>;
  stop(): Promise<void>;
}

/** What the acts make of each other's objects: SQLSTATEs of classes 22 to 55, and XX000 (tuple concurrently updated). */
const RACE = /^(2|3|4|5|XX000)/;

/**
 * Creates, changes and drops databases, roles and settings of roles at random, and opens sessions of some milliseconds up to half a
 * second in which rows are written, until it is stopped. @param inTarget sessions come to the database `shop`, too.
 */
export function disturbServer(server: Server, { inTarget }: { inTarget: boolean }): Disturbance {
  const done: Record<string, number> = {};
  let stopped = false;
  const number = () => Math.floor(Math.random() * 5);
  const pause = (most: number) => new Promise((resolve) => setTimeout(resolve, Math.random() * most));
  const onServer = (...statements: string[]) =>
    withClient(server.url, async (client) => {
      for (const sql of statements) await client.query(sql);
    });
  const visit = async (mostMs: number) => {
    const client = new Client(withDatabase(server.url, inTarget ? 'shop' : 'neighbour'));
    client.on('error', () => {});
    await client.connect();
    await client.query('INSERT INTO visits VALUES (1)');
    await pause(mostMs);
    await client.end();
  };
  const acts: Record<string, () => Promise<unknown>> = {
    'database created': () => onServer(`CREATE DATABASE noise_${number()}`),
    'database dropped': () => onServer(`DROP DATABASE noise_${number()}`),
    'database created again': () => onServer('DROP DATABASE IF EXISTS noise', 'CREATE DATABASE noise'),
    'database limited': () =>
      onServer(
        'ALTER DATABASE neighbour CONNECTION LIMIT 50',
        'ALTER DATABASE neighbour CONNECTION LIMIT -1',
      ),
    'role created': () => onServer(`CREATE ROLE noise_${number()}`),
    'role dropped': () => onServer(`DROP ROLE noise_${number()}`),
    'role altered': () => onServer(`ALTER ROLE noise_${number()} SET work_mem = '${number() + 1}MB'`),
    'short session': () => visit(5),
    'long session': () => visit(500),
  };
  const names = Object.keys(acts);
  const work = async () => {
    while (!stopped) {
      const name = names[Math.floor(Math.random() * names.length)] ?? '';
      try {
        await acts[name]?.();
        done[name] = (done[name] ?? 0) + 1;
      } catch (error) {
        if (!RACE.test((error as { code?: string }).code ?? '')) throw error;
      }
      await pause(100);
    }
  };
  const workers = [work(), work(), work()];
  return {
    done,
    stop: async () => {
      stopped = true;
      await Promise.all(workers);
    },
  };
}

/** Makes the databases that disturbServer() and the rehearsals need. */
export async function furnishServer(server: Server): Promise<string> {
  await withClient(server.url, async (client) => {
    for (const name of ['shop', 'neighbour']) await client.query(`CREATE DATABASE ${name}`);
  });
  for (const name of ['shop', 'neighbour'])
    await withClient(withDatabase(server.url, name), (client) =>
      client.query(
        'CREATE TABLE visits (id int); CREATE TABLE jobs (id int); INSERT INTO jobs SELECT generate_series(1, 1000)',
      ),
    );
  return withDatabase(server.url, 'shop');
}
