import { inject } from 'vitest';
import { embeddedBinaries, type ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server, ServerOptions } from '../../src/local-server/embedded.ts';
import { startCopied } from './data-directory.ts';

/** The folder of initdb and postgres; every user may run them. */
export async function programsOf(version: ServerVersion): Promise<string> {
  return inject('programs')[version] ?? embeddedBinaries(version);
}

/** A server of this version for one test file that changes roles, settings or everything; to be stopped by it. */
export async function ownServer(version: ServerVersion, options: ServerOptions = {}): Promise<Server> {
  return startCopied(inject('store'), { version, binaries: await programsOf(version), ...options });
}
