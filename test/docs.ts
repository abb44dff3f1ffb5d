/** npm run docs: writes into docs/ what is made from the code, and removes pages of hazards that there are no longer. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { generatedDocs } from './helpers/generated-docs.ts';
import { HAZARDS_FOLDER } from './helpers/hazard-pages.ts';

const pages = generatedDocs();
rmSync(HAZARDS_FOLDER, { recursive: true, force: true });
mkdirSync(HAZARDS_FOLDER);
for (const [file, text] of pages) writeFileSync(file, text);
