import { SafemigrateError } from '../../errors.ts';
import type { Environment } from './environment.ts';

/**
 * Returns the parameters of a service from PGSERVICEFILE or `~/.pg_service.conf`, else from the system-wide file.
 * @throws SafemigrateError `CONFIGURATION` if no file has it.
 */
export function serviceParameters(service: string, environment: Environment): Map<string, string> {
  const { env, home } = environment;
  const files = [
    env.PGSERVICEFILE || `${home}/.pg_service.conf`,
    `${env.PGSYSCONFDIR || '/etc/postgresql-common'}/pg_service.conf`,
  ];
  for (const file of files) {
    const found = section(environment.readFile(file) ?? '', service);
    if (found) return found;
  }
  throw new SafemigrateError('CONFIGURATION', `There is no service "${service}" in ${files.join(' or ')}.`, {
    hint: 'Check PGSERVICE, or name the database with --url.',
  });
}

function section(text: string, service: string): Map<string, string> | undefined {
  let found: Map<string, string> | undefined;
  for (const line of text.split(/\r?\n/).map((raw) => raw.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    const header = /^\[(.*)\]$/.exec(line);
    if (header) {
      if (found) return found;
      if (header[1] === service) found = new Map();
      continue;
    }
    const pair = /^([^=]+?)\s*=\s*(.*)$/.exec(line);
    if (found && pair && !found.has(pair[1] ?? '')) found.set(pair[1] ?? '', pair[2] ?? '');
  }
  return found;
}
