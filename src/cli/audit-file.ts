import { appendFileSync } from 'node:fs';
import { messageOf, SafemigrateError } from '../errors.ts';
import { plural } from '../format.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { statementWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import { visibleLines } from './print.ts';

/**
 * Makes an audit that writes one JSON object a line, without passwords; without a file, nothing. It opens the file at once, so that a wrong path is found before
 * anything is sent. If the disk is full later, the run continues, since dropping the clone needs statements as well; the process then
 * ends with a message about the missing ones. @throws SafemigrateError `CONFIGURATION` if the file cannot be written
 */
export function auditTo(file: string | undefined): Audit {
  if (file === undefined) return () => {};
  const append = (text: string) => appendFileSync(file, text, { mode: 0o600 });
  try {
    append('');
  } catch (cause) {
    const message = `The audit cannot be written to ${file}: ${messageOf(cause)}.`;
    throw new SafemigrateError('CONFIGURATION', message, { cause });
  }
  let missing = 0;
  const failed = (error: unknown) => {
    missing += 1;
    if (missing > 1) return;
    process.once('exit', () =>
      process.stderr.write(
        visibleLines(
          `safemigrate: The audit in ${file} lacks ${plural(missing, 'statement')}: ${messageOf(error)}.\n`,
        ),
      ),
    );
  };
  const shown = (value: unknown) => (typeof value === 'string' ? statementWithoutSecrets(value) : value);
  return ({ sql, values, ...entry }) => {
    try {
      append(
        `${JSON.stringify({ ...entry, sql: statementWithoutSecrets(sql), values: values.map(shown) })}\n`,
      );
    } catch (error) {
      failed(error);
    }
  };
}
