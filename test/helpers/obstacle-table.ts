import { OBSTACLE_RULES } from '../../src/upgrade/obstacles/find-obstacles.ts';

export const OBSTACLES_PAGE = 'docs/upgrade.md';
export const OBSTACLES_BLOCK = 'obstacles';

/** The obstacles to an upgrade, as the page about it lists them. */
export function obstacleTable(): string {
  return [
    '| obstacle | | what it means | remedy |',
    '|---|---|---|---|',
    ...OBSTACLE_RULES.map(
      ({ code, severity, message, remedy }) => `| \`${code}\` | ${severity} | ${message} | ${remedy} |`,
    ),
  ].join('\n');
}
