import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { scriptCommand } from './rehearse.ts';

/** A command that works on the clone, and before that on the target itself, in a session that ends at once. */
export function passingBy(target: string, folder: string, sql: string): string[] {
  const hardCoded = path.join(folder, 'url');
  writeFileSync(hardCoded, target);
  return scriptCommand(
    `const url = (await import('node:fs')).readFileSync(args[0], 'utf8');
     const passing = await connect(undefined, url);
     await passing.query(args[1]);
     await passing.end();
     const client = await connect();
     await client.query('CREATE TABLE notes (id int)');
     await client.end();`,
    hardCoded,
    sql,
  );
}
