import { z } from 'zod';

/** The units of the report: durations are milliseconds, sizes are bytes, times are ISO 8601 with an offset. */
export const milliseconds = z.number().nonnegative();
export const bytes = z.int();
export const time = z.iso.datetime({ offset: true });
