/**
 * Escapes that change production today without a word. Their tests expect that they still do, so that what stops or reports one
 * of them takes it out of this list. `sometimes`: it depends on the moment.
 */
export const SILENT: ReadonlyMap<string, 'always' | 'sometimes'> = new Map([
  ['create-role-after-clone', 'always'],
  ['double-fork', 'sometimes'],
  ['large-object-elsewhere', 'always'],
  ['lock-shared-catalogue-in-do', 'always'],
  ['own-millisecond', 'sometimes'],
  ['own-named-as-safemigrate', 'sometimes'],
  ['own-short', 'sometimes'],
  ['own-stays', 'sometimes'],
  ['own-other-database', 'sometimes'],
  ['parents-environment', 'sometimes'],
  ['shell-in-psql', 'sometimes'],
  ['switch-wal-in-do', 'always'],
  ['terminate-concatenated', 'always'],
]);
