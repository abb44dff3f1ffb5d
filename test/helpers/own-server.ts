import { embeddedBinaries, type ServerVersion } from '../../src/server/binaries.ts';
import { type Server, type ServerOptions, startServer } from '../../src/server/embedded.ts';
import { testBinaries } from './binaries.ts';

/** A server of this version for one test file that changes roles, settings or everything; to be stopped by it. */
export async function ownServer(version: ServerVersion, options: ServerOptions = {}): Promise<Server> {
  const binaries = version === 18 ? await embeddedBinaries(18) : testBinaries(version);
  return startServer({ version, ...(binaries === undefined ? {} : { binaries }), ...options });
}
