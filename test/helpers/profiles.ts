import type { Profile, ProfiledRelation } from '../../src/model/profile-model.ts';
import { sealOf } from '../../src/rehearsal/receipts/seal.ts';

/** A relation of a profile, made by hand. */
export function profiled(
  relation: string,
  sizeBytes: number,
  rows: number,
  more: Partial<ProfiledRelation> = {},
): ProfiledRelation {
  return {
    relation,
    sizeBytes,
    rows,
    kind: 'table',
    indexBytes: 0,
    owner: 'shop',
    grants: [],
    readsPerSecond: 0,
    insertsPerSecond: 0,
    writesPerSecond: 0,
    ...more,
  };
}

/** A profile of these relations, with a checksum. */
export function sampleProfile(relations: ProfiledRelation[], more: Partial<Profile> = {}): Profile {
  const content = {
    profile: 1 as const,
    takenAt: '2026-11-20T09:00:00.000Z',
    tool: '0.2.0',
    server: { version: '18.1', versionNum: 180001 },
    database: { name: 'shop', sizeBytes: 2 ** 40 },
    relations,
    traffic: {
      sampledMs: 10_000,
      averagedMs: null,
      transactionsPerSecond: 100,
      sessions: { open: 40, max: 100, reserved: 3 },
      standbys: [],
      inactiveSlots: [],
    },
    statements: null,
    settings: {},
    freeBytes: null,
    unread: [],
    ...more,
  };
  return { ...content, seal: sealOf(content, undefined) };
}
