import { expect, test } from 'vitest';
import {
  refuseUnsupported,
  refuseUntried,
  untriedVersion,
} from '../../../src/postgres/connection/supported-versions.ts';
import { endOfLife } from '../../../src/postgres/end-of-life.ts';
import { rehearsalScreen } from '../../../src/report/sections/screen-view.ts';
import { sampleReport } from '../../helpers/reports.ts';

test.each(['14.23', '18.6', '19rc1', '19.0 (Debian 19.0-1)'])('%s was tried', (version) => {
  expect(untriedVersion(version)).toBeUndefined();
  expect(() => refuseUntried(version)).not.toThrow();
  expect(() => refuseUnsupported(new Map([['server_version', version]]))).not.toThrow();
});

test.each(['20devel', '20.1', '21beta2'])('%s is rehearsed with a caveat, and not changed', (version) => {
  const major = Number.parseInt(version, 10);
  expect(untriedVersion(version)).toBe(`not tried with PostgreSQL ${major}: safemigrate knows 14 to 19`);
  expect(() => refuseUnsupported(new Map([['server_version', version]]))).not.toThrow();
  expect(() => refuseUntried(version)).toThrow(/not tried with PostgreSQL/);
});

test('13 is not supported', () => {
  expect(() => refuseUnsupported(new Map([['server_version', '13.2']]))).toThrow(/needs 14 or later/);
});

test('the first lines of a report say it', () => {
  const reason = untriedVersion('20.1') ?? '';
  const caveats = [{ path: 'target.serverVersion', kind: 'estimate', reason } as const];
  const [headline] = rehearsalScreen(sampleReport({ caveats }));
  expect(JSON.stringify(headline)).toContain('Not tried with PostgreSQL 20');
});

test('a version is past its end from the day after its last release', () => {
  expect(endOfLife('14.24', new Date('2026-11-12T23:00:00Z'))).toBeUndefined();
  expect(endOfLife('14.24', new Date('2026-11-13T00:00:00Z'))).toBe(
    'PostgreSQL 14 has had no fixes since 2026-11-12',
  );
  expect(endOfLife('18.6', new Date('2026-11-26'))).toBeUndefined();
  expect(endOfLife('19.1', new Date('2040-01-01'))).toBeUndefined();
});
