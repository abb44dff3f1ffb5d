import { writeFileSync } from 'node:fs';
import { reportJsonSchema } from '../report/schema.ts';

/** The build's last step: the schema that the package publishes, generated from the model beside it. */
writeFileSync(
  new URL('../report/report.schema.json', import.meta.url),
  `${JSON.stringify(reportJsonSchema(), null, 2)}\n`,
);
