import { z } from 'zod';
import { profileShape } from '../model/profile-model.ts';
import { printedError, printedReport } from '../model/report.ts';
import { summary } from '../model/summary-model.ts';
import { upgradeReport } from '../model/upgrade-model.ts';

/** The JSON Schema (draft 2020-12) of the report. Unknown keys are allowed: later versions may add paths. */
export function reportJsonSchema(): z.core.JSONSchema.JSONSchema {
  return {
    ...z.toJSONSchema(printedReport, { io: 'input' }),
    title: 'safemigrate report',
    description: 'What one run measured. Durations are milliseconds, sizes bytes, times ISO 8601.',
  };
}

/** The same for `--format summary`. */
export function summaryJsonSchema(): z.core.JSONSchema.JSONSchema {
  return {
    ...z.toJSONSchema(summary, { io: 'input' }),
    title: 'safemigrate summary',
    description: 'The outcome of one run, what to do about it and where, in at most 2 kB.',
  };
}

/** The same for an ending without a report. */
export function errorJsonSchema(): z.core.JSONSchema.JSONSchema {
  return {
    ...z.toJSONSchema(printedError, { io: 'input' }),
    title: 'safemigrate error',
    description: 'The one object on stdout if a run ends before there is a report.',
  };
}

/** The same for the file that `safemigrate profile` writes. */
export function profileJsonSchema(): z.core.JSONSchema.JSONSchema {
  return {
    ...z.toJSONSchema(profileShape, { io: 'input' }),
    title: 'safemigrate profile',
    description:
      'Sizes, rates and statements of a production database, without values. Durations are milliseconds, sizes bytes, times ISO 8601.',
  };
}

/** The same for the report of `safemigrate upgrade`. */
export function upgradeJsonSchema(): z.core.JSONSchema.JSONSchema {
  return {
    ...z.toJSONSchema(upgradeReport, { io: 'input' }),
    title: 'safemigrate upgrade report',
    description:
      'What the rehearsal of a major upgrade measured. Durations are milliseconds, sizes bytes, times ISO 8601.',
  };
}
