/** npm run docs: writes into docs/ what is made from the code. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { withBlock } from './helpers/marked-block.ts';
import { OPTIONS_BLOCK, OPTIONS_PAGE, optionTables } from './helpers/option-tables.ts';

const page = path.join(process.cwd(), OPTIONS_PAGE);
writeFileSync(page, withBlock(readFileSync(page, 'utf8'), OPTIONS_BLOCK, optionTables()));
