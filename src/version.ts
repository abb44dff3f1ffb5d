import { readFileSync } from 'node:fs';

/** The version of the package that this file is installed with. */
export function toolVersion(): string {
  // Built files and sources lie equally deep.
  const content = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  const { version }: { version: string } = JSON.parse(content);
  return version;
}
