import { parseText } from '../postgres/sql/parse.ts';

/**
 * Loads what the command's time would otherwise pay for: the parser, whose loading would be counted into the first
 * statement, and what starts processes. To be called while the server reads the schema, when this thread only waits.
 */
export async function warmUp(): Promise<void> {
  await Promise.all([parseText(Buffer.from('SELECT 1')), import('execa')]);
}
