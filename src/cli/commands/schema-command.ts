import { SafemigrateError } from '../../errors.ts';
import { EXIT } from '../exit-codes.ts';
import { jsonText } from '../print.ts';

/** Prints the JSON Schema of a format. @throws SafemigrateError `USAGE` for a name that there is not. */
export async function schemaCommand(name = 'report'): Promise<number> {
  const { errorJsonSchema, profileJsonSchema, reportJsonSchema, summaryJsonSchema, upgradeJsonSchema } =
    await import('../../report/report-schema.ts');
  const schemas = new Map([
    ['report', reportJsonSchema],
    ['summary', summaryJsonSchema],
    ['error', errorJsonSchema],
    ['profile', profileJsonSchema],
    ['upgrade', upgradeJsonSchema],
  ]);
  const schema = schemas.get(name);
  if (schema === undefined)
    throw new SafemigrateError('USAGE', `The schema "${name}" does not exist.`, {
      hint: `The schemas: ${[...schemas.keys()].join(', ')}`,
    });
  process.stdout.write(jsonText(schema()));
  return EXIT.passed;
}
