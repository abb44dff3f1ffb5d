import { listed, plural } from '../format.ts';
import type { AppCheck, AppRun, Hazard } from '../model/report.ts';
import type { HazardTexts } from './hazard-definition.ts';

const BREAKS: HazardTexts = {
  code: 'APPLICATION_BREAKS',
  title: 'the checks of the application fail on the migrated schema',
  condition:
    'The checks of a release (--app, SAFEMIGRATE_APP_NEW) passed on a clone that is not migrated, and failed twice on the migrated one.',
  effect:
    'The release that runs while the migration is deployed gets these errors from the commit until it is replaced.',
  safer:
    'First release code that works with both schemas; then remove columns and tables of the old code in a later migration.',
};
const NEEDS_MIGRATION: HazardTexts = {
  code: 'APPLICATION_NEEDS_MIGRATION',
  title: 'the new release fails on the schema before the migration',
  condition:
    'The checks of the new release (SAFEMIGRATE_APP_NEW) passed on the migrated clone, and failed twice on one that is not migrated.',
  effect:
    'If the code is deployed first, it fails until the migration has run, and after the migration is undone.',
  safer: 'Run the migration before the new release is deployed, or let its code work with both schemas.',
};

/** Hazards that the application's own checks find. */
export const APP_HAZARDS: readonly HazardTexts[] = [BREAKS, NEEDS_MIGRATION];

/** Finds the checks that passed on one of the two schemas only. */
export function findAppHazards(checks: readonly AppCheck[]): Hazard[] {
  return checks.flatMap((check): Hazard[] => {
    const { release, command, before, after, result } = check;
    if (result === 'breaks')
      return [
        hazard(BREAKS, {
          message: `${command} of the ${release} release passes before the migration and fails after it`,
          evidence: evidenceOf(check, after),
        }),
      ];
    if (result !== 'needs migration' || before === null) return [];
    return [
      hazard(NEEDS_MIGRATION, {
        message: `${command} of the new release passes after the migration and fails before it`,
        evidence: evidenceOf(check, before),
      }),
    ];
  });
}

function hazard({ code, safer }: HazardTexts, found: Pick<Hazard, 'message' | 'evidence'>): Hazard {
  return {
    code,
    severity: 'error',
    statement: null,
    relation: null,
    ...found,
    advice: safer,
    allowed: false,
  };
}

const SHOWN = { atMost: 3, separator: '; ' };
const SQL_CHARACTERS = 120;

function evidenceOf({ failed }: AppCheck, { exitCode, signal, timedOut, statements }: AppRun): string {
  const end = timedOut ? 'ended by the time limit' : (signal ?? `exit code ${exitCode}`);
  if (failed.length === 0)
    return `${end}; ${plural(statements, 'statement')}, of which none failed only there`;
  const texts = failed.map(
    ({ sqlstate, message, sql, count }) =>
      `${sqlstate} ${message}, ${plural(count, 'time')}: ${sql.length > SQL_CHARACTERS ? `${sql.slice(0, SQL_CHARACTERS)}…` : sql}`,
  );
  return `${end}; failed only there: ${listed(texts, SHOWN)}`;
}
