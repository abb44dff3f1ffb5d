import { inject } from 'vitest';
import type { ServerVersion } from '../../src/server/binaries.ts';

const servers = inject('servers');

/** The major versions to test on; all five, except where a platform has no build of one. */
export const VERSIONS = ([14, 15, 16, 17, 18] as const).filter((version) => version in servers);

/** A superuser's URL of the database `postgres` of the server that the whole test run shares. */
export function serverUrl(version: ServerVersion): string {
  const url = servers[version];
  if (url === undefined) throw new Error(`no server of PostgreSQL ${version} on this platform: see VERSIONS`);
  return url;
}
