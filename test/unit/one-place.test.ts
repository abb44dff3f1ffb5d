import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

/**
 * Each meaning has one place. What a change opens is counted by examples that exist: the files of src whose code (not its
 * comments) has the example's name. A new option, section, kind of statement or fact of a hazard takes as many.
 */
interface Rule {
  readonly what: string;
  readonly atMost: number;
  /** Where it is meant to stand. */
  readonly places: string;
  readonly examples: readonly string[];
}

const RULES: readonly Rule[] = [
  {
    what: 'option',
    atMost: 3,
    places: 'its declaration in …-settings.ts, and the step that goes by it',
    examples: [
      ...['requireProof', 'maxLocks', 'maxLatencyMs', 'failOn'],
      ...['maxBlockedMs', 'maxWaiting', 'onDivergence', 'unblock'],
      ...['baseBackup', 'maxStallMs', 'keepOriginalMs', 'discardWrites', 'newBin', 'maxDowntimeMs'],
    ],
  },
  {
    what: 'section of the report',
    atMost: 2,
    places: 'its view in report/sections, and the list of sections',
    examples: [
      ...['runView', 'schemaView', 'dataView', 'lossView', 'rollbackView'],
      ...['forecastView', 'loadView', 'scriptView', 'timelineView'],
    ],
  },
  {
    what: 'kind of statement',
    atMost: 3,
    places: 'its row in postgres/sql/kinds, and what reads a part that no other kind has',
    examples: [
      ...['ReindexStmt', 'ClusterStmt', 'RefreshMatViewStmt'],
      ...['CreatePolicyStmt', 'AlterEnumStmt', 'CreatePublicationStmt'],
      ...['CreateSubscriptionStmt', 'AlterSystemStmt', 'ReassignOwnedStmt', 'AlterDatabaseSetStmt'],
    ],
  },
  {
    what: 'fact of a hazard',
    atMost: 6,
    places: 'model/hazard-facts.ts, what reads it, what hands it on, and the hazard',
    examples: [
      ...['identityLost', 'lockTimeoutByDefault', 'unenforced', 'unanalyzed', 'brokenFunctions'],
      ...['unindexedForeignKeys', 'leftPrepared', 'missingGrants', 'actsOnServer', 'logicalSlots'],
      ...['sessionsWithLockTimeout', 'sessionsOfPsql'],
    ],
  },
  {
    what: 'hosted service',
    atMost: 2,
    places: 'its recipe in clone/services, and its row in service-list.ts',
    examples: ['xata', 'planetscale', 'digitalocean', 'cloudsql', 'aiven'],
  },
];

const src = fileURLToPath(new URL('../../src', import.meta.url));
const CODE: readonly (readonly [file: string, code: string])[] = readdirSync(src, {
  recursive: true,
  encoding: 'utf8',
})
  .filter((file) => file.endsWith('.ts'))
  .map((file) => [
    file.replaceAll(path.sep, '/'),
    readFileSync(path.join(src, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, ''),
  ]);

describe.each(RULES)('one place for each $what', ({ what, atMost, places, examples }) => {
  test.each(examples)(`%s is named in at most ${atMost} files`, (name) => {
    const pattern = new RegExp(`\\b${name}\\b`);
    const files = CODE.filter(([, code]) => pattern.test(code)).map(([file]) => file);
    expect(files, `no file of src has ${name}: choose another ${what}`).not.toEqual([]);
    if (files.length <= atMost) return;
    expect.fail(
      `The ${what} ${name} stands in ${files.length} files, of ${atMost} at most: ${files.join(', ')}. It belongs to ${places}.`,
    );
  });
});
