import { inject } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { ownServer } from './own-server.ts';
import { requireAll } from './requirements.ts';

const servers = { ...inject('servers') };
const own: Server[] = [];

/** All major versions where everything is required, as in CI; else those between which most differs. */
const TESTED = requireAll ? ([14, 15, 16, 17, 18, 19] as const) : ([14, 15, 18, 19] as const);

/** The major versions to test on, except where a platform has no build of one. */
export const VERSIONS = TESTED.filter((version) => version in servers);

/** The major version of the server that the tests of a version are given: a suite can be tried on 19 in place of 18 (global-setup.ts). */
export function majorOf(version: number): number {
  return version === 18 ? Number(process.env.SAFEMIGRATE_TEST_IN_PLACE_OF_18 ?? 18) : version;
}

/** For behaviour that differs between versions only if it differs between these two: 14 and 19, where there are servers of both. */
export const OLDEST_AND_NEWEST = VERSIONS.filter((_, index) => index === 0 || index === VERSIONS.length - 1);

/** For what our own code decides, whatever the server: its SQL is sent to the oldest one as well, by tests of whole rehearsals. */
export const NEWEST = VERSIONS.slice(-1);

/** The version that this environment variable names, 18 where it is not set: for one of a soak that takes long. */
export function chosenVersion(variable: string): ServerVersion {
  const chosen = process.env[variable] ?? '18';
  const version = ([14, 15, 16, 17, 18, 19] as const).find((each) => String(each) === chosen);
  if (version === undefined || !(version in servers))
    throw new Error(`${variable}: one of ${Object.keys(servers).join(', ')}`);
  return version;
}

/** Of a long list one version gets everything, and the others a part each: a quarter, unless another number of parts is given. */
export function shareOf<T>(version: ServerVersion, list: readonly T[], parts = 4): T[] {
  return version === 18 ? [...list] : list.filter((_, index) => index % parts === version % parts);
}

/** A superuser's URL of the database `postgres` of the server that the whole test run shares. */
export function serverUrl(version: ServerVersion): string {
  const url = servers[version];
  if (url === undefined) throw new Error(`no server of PostgreSQL ${version} on this platform: see VERSIONS`);
  return url;
}

/**
 * From now on this test file has servers of its own, which end after it. For whole runs, which report what happens on
 * their server: a database that another test file makes there meanwhile is a change that a person must look at.
 */
export async function useOwnServers(...versions: ServerVersion[]): Promise<void> {
  await Promise.all(
    versions.map(async (version) => {
      const server = await ownServer(version, { settings: { max_prepared_transactions: '5' } });
      own.push(server);
      servers[version] = server.url;
    }),
  );
}

export async function stopOwnServers(): Promise<void> {
  await Promise.all(own.splice(0).map((server) => server.stop()));
}
