import { createRequire } from 'node:module';
import path from 'node:path';
import { embeddedBinaries, type ServerVersion } from '../../src/server/binaries.ts';
import { type Server, type ServerOptions, startServer } from '../../src/server/embedded.ts';

/** 14 to 17 come with the workspace test/servers, under names of their own; undefined where there is no build. */
export function testBinaries(version: ServerVersion): string | undefined {
  try {
    const require = createRequire(new URL('../servers/package.json', import.meta.url));
    const entry = require.resolve(`postgresql-${version}-${process.platform}-${process.arch}`);
    return path.join(path.dirname(entry), '..', 'native', 'bin');
  } catch {
    return undefined;
  }
}

/** A server of this version for one test file that changes roles, settings or everything; to be stopped by it. */
export async function ownServer(version: ServerVersion, options: ServerOptions = {}): Promise<Server> {
  const binaries = version === 18 ? await embeddedBinaries(18) : testBinaries(version);
  return startServer({ version, ...(binaries === undefined ? {} : { binaries }), ...options });
}
