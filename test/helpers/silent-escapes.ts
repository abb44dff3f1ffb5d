/**
 * Escapes that change production today without a word. Their tests expect that they still do, so that what stops or reports one
 * of them takes it out of this list. `sometimes`: it depends on the moment.
 */
export const SILENT: ReadonlyMap<string, 'always' | 'sometimes'> = new Map([
  ['cancel-in-function', 'always'],
  ['configuration-file', 'always'],
  ['create-role-after-clone', 'always'],
  ['daemon-after-the-run', 'always'],
  ['dblink-alter-system', 'always'],
  ['dblink-in-do', 'always'],
  ['dblink-in-query-to-xml', 'always'],
  ['dblink-in-view', 'always'],
  ['double-fork', 'sometimes'],
  ['fdw-insert', 'always'],
  ['large-object-elsewhere', 'always'],
  ['lock-shared-catalogue-in-do', 'always'],
  ['long-text', 'always'],
  ['own-millisecond', 'sometimes'],
  ['own-named-as-safemigrate', 'sometimes'],
  ['own-short', 'sometimes'],
  ['own-stays', 'sometimes'],
  ['own-other-database', 'sometimes'],
  ['parents-environment', 'sometimes'],
  ['reload-in-do', 'always'],
  ['shell-in-psql', 'sometimes'],
  ['switch-wal-in-do', 'always'],
  ['terminate-concatenated', 'always'],
  ['terminate-in-do', 'always'],
]);
