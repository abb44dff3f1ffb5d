/** Days of the last minor releases (https://www.postgresql.org/support/versioning/). */
const LAST_RELEASES: Readonly<Record<number, string>> = {
  14: '2026-11-12',
  15: '2027-11-11',
  16: '2028-11-09',
  17: '2029-11-08',
  18: '2030-11-14',
};

/** Says that a server_version gets no fixes any more; undefined if it does, or if that is not known. */
export function endOfLife(version: string, today: Date): string | undefined {
  const major = Number.parseInt(version, 10);
  const last = LAST_RELEASES[major];
  return last !== undefined && today.toISOString().slice(0, 10) > last
    ? `PostgreSQL ${major} has had no fixes since ${last}`
    : undefined;
}
