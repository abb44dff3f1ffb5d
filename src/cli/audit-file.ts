import { appendFileSync } from 'node:fs';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';

/**
 * Makes an audit that writes one JSON object a line, without passwords; without a file, nothing. It opens the file at once, so that a wrong path is found before
 * anything is sent. @throws SafemigrateError `CONFIGURATION` if the file cannot be written
 */
export function auditTo(file: string | undefined): Audit {
  if (file === undefined) return () => {};
  const append = (text: string) => {
    try {
      appendFileSync(file, text, { mode: 0o600 });
    } catch (cause) {
      const message = `The audit cannot be written to ${file}: ${messageOf(cause)}.`;
      throw new SafemigrateError('CONFIGURATION', message, { cause });
    }
  };
  append('');
  const shown = (value: unknown) => (typeof value === 'string' ? statementWithoutSecrets(value) : value);
  return ({ sql, values, ...entry }) =>
    append(`${JSON.stringify({ ...entry, sql: statementWithoutSecrets(sql), values: values.map(shown) })}\n`);
}
