import { parseText } from '../postgres/sql/parse.ts';

/** Loads what runs the command and what observes it: execa's 120 files, and PostgreSQL's parser, which compiles for a moment. */
export async function loadForCommand(): Promise<void> {
  await import('execa');
  await parseText(Buffer.from('SELECT 1'));
}
