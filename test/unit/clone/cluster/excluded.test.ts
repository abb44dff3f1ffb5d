import { describe, expect, test } from 'vitest';
import { isEmptied, isExcluded } from '../../../../src/clone/cluster/excluded.ts';

describe('a copy of a data directory', () => {
  test.each([
    ['', 'postmaster.pid'],
    ['', 'postmaster.opts'],
    ['', 'standby.signal'],
    ['', 'backup_label.old'],
    ['', 'lost+found'],
    ['', 'core.1234'],
    ['base', 'pgsql_tmp'],
    ['base/16384', 'pg_internal.init'],
    ['base/16384', 'pg_internal.init.4711'],
    ['base/16384', 't3_16402'],
    ['base/16384', 't3_16402_fsm'],
    ['base/16384', 't12_16402.1'],
  ])('comes without %s/%s', (folder, name) => {
    expect(isExcluded(folder, name)).toBe(true);
  });

  test.each([
    ['', 'PG_VERSION'],
    ['', 'postgresql.auto.conf'],
    ['base/16384', '16402'],
    ['base/16384', '16402_init'],
    ['base/16384', 'pg_filenode.map'],
    ['global', 'pg_control'],
    ['pg_logical', 'replorigin_checkpoint'],
    ['pg_stat', 'pgstat.stat'],
  ])('has %s/%s', (folder, name) => {
    expect(isExcluded(folder, name)).toBe(false);
  });

  test('has empty folders for what a server makes for itself, and for the log', () => {
    for (const folder of ['pg_wal', 'pg_replslot', 'pg_stat_tmp', 'log'])
      expect(isEmptied(folder, 'log'), folder).toBe(true);
    for (const folder of ['', 'base', 'pg_xact', 'pg_logical', 'pg_tblspc'])
      expect(isEmptied(folder, undefined), folder).toBe(false);
  });
});
