/** The ways in which pg_upgrade takes over the files of relations. */
export const UPGRADE_MODES = ['copy', 'clone', 'link', 'swap'] as const;
export type UpgradeMode = (typeof UPGRADE_MODES)[number];

/** The mode of a report's section: `service` is the upgrade that a hosted service does itself. */
export const TRIED_MODES = [...UPGRADE_MODES, 'service'] as const;
