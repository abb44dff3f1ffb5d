/** npm run docs: writes into README.md what is made from the code. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { withBlock } from './helpers/marked-block.ts';
import { OPTIONS_BLOCK, optionTables } from './helpers/option-tables.ts';

const readme = path.join(process.cwd(), 'README.md');
writeFileSync(readme, withBlock(readFileSync(readme, 'utf8'), OPTIONS_BLOCK, optionTables()));
