import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { allServices } from '../../src/clone/services/service-list.ts';

export const SERVICES_PAGE = 'docs/services.md';
export const SERVICES_BLOCK = 'services';

const SERVICES = await allServices();

/** The hosted services, as their page lists them: each section ends with what was tested. */
export function serviceTable(): string {
  const page = readFileSync(fileURLToPath(new URL(`../../${SERVICES_PAGE}`, import.meta.url)), 'utf8');
  const sections = page.split(/^## /m);
  const rows = SERVICES.map(({ id, title, sourceForm }) => {
    const section = sections.find((text) => text.startsWith(`${title}\n`)) ?? '';
    const [, tested] = /^Tested: (.+)\.\n*$/m.exec(section) ?? [];
    if (tested === undefined) throw new Error(`${SERVICES_PAGE} has no section ${title} with "Tested: "`);
    const anchor = title.toLowerCase().replaceAll(' ', '-');
    return `| \`${id}\` | [${title}](#${anchor}) | \`${sourceForm}\` | ${tested} |`;
  });
  return [
    '| `--clone` | service | `SAFEMIGRATE_CLONE_OF` | what was tested |',
    '|---|---|---|---|',
    ...rows,
  ].join('\n');
}
