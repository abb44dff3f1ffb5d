import { createRequire } from 'node:module';
import path from 'node:path';
import type { ServerVersion } from '../../src/local-server/binaries.ts';

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
