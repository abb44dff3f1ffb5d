/** The ways in which pg_upgrade takes over the files of relations. */
export const UPGRADE_MODES = ['copy', 'clone', 'link', 'swap'] as const;
export type UpgradeMode = (typeof UPGRADE_MODES)[number];
