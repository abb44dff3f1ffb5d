import { APPLICATION_EFFECTS } from './application-effects.ts';
import { CHANGED_SETTINGS } from './changed-settings.ts';
import { INSTALLED_PARTS } from './installed-parts.ts';
import { LOST_STATE } from './lost-state.ts';
import type { ObstacleRule } from './obstacle-rule.ts';
import { REFUSED_OBJECTS } from './refused-objects.ts';

const ALL = [
  ...REFUSED_OBJECTS,
  ...INSTALLED_PARTS,
  ...APPLICATION_EFFECTS,
  ...LOST_STATE,
  ...CHANGED_SETTINGS,
];

/** Every obstacle that is known, the gravest first. */
export const OBSTACLE_RULES: readonly ObstacleRule[] = (['error', 'warning', 'notice'] as const).flatMap(
  (severity) => ALL.filter((rule) => rule.severity === severity),
);
