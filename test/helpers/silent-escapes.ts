/**
 * Escapes that change production today without a word. Their tests expect that they still do, so that what stops or reports one
 * of them takes it out of this list. `sometimes`: it depends on the moment.
 */
export const SILENT: ReadonlyMap<string, 'always' | 'sometimes'> = new Map([
  ['own-short', 'sometimes'],
  ['own-other-database', 'sometimes'],
  ['shell-in-psql', 'sometimes'],
  ['switch-wal-in-do', 'always'],
]);
