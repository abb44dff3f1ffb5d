import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { Hazard } from '../../src/model/report.ts';
import { recordFigures } from '../bench/figures.ts';
import { temporaryFolder } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { loopFileSystem } from '../helpers/file-system.ts';
import { placedServer } from '../helpers/placed-server.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { type UnseenExample, type UnseenSet, unseenExamples, unseenSetup } from '../helpers/unseen.ts';

interface Set {
  readonly folder: UnseenSet;
  readonly title: string;
  /** Its tables have the sizes of production. */
  readonly isLarge?: true;
  /** The figures of the first run, before any rule was changed for the set. */
  readonly firstRun: readonly string[];
  /** The least share of dangerous ones told as a warning or an error, or shown as a failure. */
  readonly recall: number;
  readonly falseWarnings: number;
}

const SETS: readonly Set[] = [
  {
    folder: 'unseen',
    title: 'Examples that the rules were not written for',
    firstRun: [
      'First run, before any rule was changed for them: 33 of 101 dangerous and 2 of 49 safe ones were a warning, an error or a failure.',
    ],
    recall: 0.85,
    falseWarnings: 2,
  },
  {
    folder: 'blind',
    title: 'Examples that were written without a look at the rules',
    firstRun: [
      'First run, before any rule was changed for them: 51 of 100 dangerous ones were a warning, an error or a failure, and 44 of these named the danger that the file states; 85 had any hazard. 1 of 50 safe ones was a warning.',
      'Of the 49 others, 10 are locks and rewrites of tables of 4 to 11 MB that a notice names: they take less than a second. The same code with a profile whose large tables are 100 times as large found all 17 that are about locks, which makes 62 of 100, and warned of 4 of 50 safe ones: new columns of published tables.',
    ],
    recall: 0.7,
    falseWarnings: 2,
  },
  {
    folder: 'fresh',
    title: 'Examples of another business, written without a look at the rules',
    firstRun: [
      'First run, before any rule was changed for them: 73 of 100 dangerous ones were a warning, an error or a failure, and 60 of these named the danger that the file states; 91 had any hazard. 4 of 50 safe ones were a warning or a failure. Of the failures, 4 dangerous ones and a safe one are ALTER ROLE and DROP OWNED, which the clone refuses.',
      'Of the 27 others, 7 are locks on tables of 250,000 rows or fewer that a notice names: they take less than a second. The same code with a profile whose large tables are 100 times as large found all 7, which makes 81 of 100, 67 named, and warned of no further safe one; 30 examples that use large tables were run with it.',
    ],
    recall: 0.7,
    falseWarnings: 4,
  },
  {
    folder: 'hospital',
    title: 'Examples of a hospital, written without a look at the rules',
    firstRun: [
      'First run, before any rule was changed for them: 63 of 100 dangerous ones were a warning, an error or a failure, and 55 of these named the danger that the file states; 97 had any hazard. 1 of 50 safe ones was a warning.',
      'Of the 37 others, 27 are locks and rewrites of tables of 20,000 to 105,000 rows that a notice names: they take less than a second. The same code with a profile in which all tables of 20,000 rows or more are 100 times as large told 25 of them, which makes 88 of 100, 81 named, and warned of 2 of 50 safe ones. The 30 examples about locks and the safe ones were run with it.',
    ],
    recall: 0.6,
    falseWarnings: 2,
  },
  {
    folder: 'parcels',
    title: 'Examples of a parcel carrier at the sizes of production, written without a look at the rules',
    isLarge: true,
    firstRun: [
      'First run, before any rule was changed for them, without a profile: 90 of 100 dangerous ones were a warning or an error, and 85 of these named the danger that the file states; 97 had any hazard. 3 of 50 safe ones were a warning.',
      'The first 22 are locks, rewrites, scans and long transactions; all were told.',
    ],
    recall: 0.9,
    falseWarnings: 3,
  },
  {
    folder: 'carrier',
    title:
      'Other examples on the database of the parcel carrier, written by an author who had read only that',
    isLarge: true,
    firstRun: [
      'First run, before any rule was changed for them, without a profile, beside other work: 79 of 100 dangerous ones were a warning or an error, and 88 had any hazard. 1 of 50 safe ones was a warning.',
      'All 18 locks, rewrites and scans were told. 12 of the 21 others had no hazard: bodies of functions that do something else, values that statements mix up, privileges by default for the wrong role.',
    ],
    recall: 0.75,
    falseWarnings: 2,
  },
  {
    folder: 'freight',
    title: 'A third set on the database of the parcel carrier, by an author who had read only that',
    isLarge: true,
    firstRun: [
      'First run, before any rule was changed for them, without a profile, beside other work: 87 of 100 dangerous ones were a warning or an error, and 85 of these named the danger that the file states; 91 had any hazard. 1 of 50 safe ones was a warning.',
      'All 17 locks, rewrites, scans and long transactions were told. 9 of the 13 others had no hazard: a trigger disabled in one partition, partitions with gaps, a role setting, the identity of a table behind policies, a view without its rule, an index marked valid by hand, a CHECK beside the one that was to be replaced, rows multiplied by a join, and numbers that are counted instead of drawn from a sequence.',
    ],
    recall: 0.87,
    falseWarnings: 1,
  },
];

beforeAll(() => useOwnServers(18));

/** A database of some gigabytes, where a clone shares the blocks of its target. */
async function largeDatabase(setup: string): Promise<{ url: string; drop(): Promise<void> }> {
  const disk = await loopFileSystem('xfs', 24 * 2 ** 30);
  const settings = { fsync: 'off', shared_buffers: '1GB', max_wal_size: '4GB', wal_level: 'logical' };
  const server = await placedServer(18, {
    parent: disk.folder,
    settings: { ...settings, file_copy_method: 'clone' },
  });
  await withClient(server.url, (client) => client.query(setup));
  return { url: server.url, drop: () => server.stop().finally(() => disk.destroy()) };
}

test.each(SETS)(
  'examples of $folder are told, each in a rehearsal of its own',
  { timeout: 2 * 60 * 60_000 },
  async (set) => {
    const setup = unseenSetup(set.folder);
    const database = set.isLarge ? await largeDatabase(setup) : await temporaryDatabase(18, { sql: setup });
    // VACUUM runs in no transaction, as several statements of one message do.
    await withClient(database.url, (client) => client.query('VACUUM ANALYZE'));
    const dangerous = await judged(database.url, unseenExamples(set.folder, 'dangerous'));
    const safe = await judged(database.url, unseenExamples(set.folder, 'safe'));
    await database.drop();
    const missed = dangerous.filter(({ isTold }) => !isTold).map(wordsOf);
    const warned = safe.filter(({ isTold }) => isTold).map(wordsOf);
    recordFigures(
      set.title,
      [rowOf('dangerous', dangerous), rowOf('safe', safe)],
      [
        `Each example is rehearsed by itself on PostgreSQL 18; tables have up to ${set.isLarge ? '4,500,000' : '100,000'} rows.`,
        ...set.firstRun,
        'Since then rules were written for what was missed, so that the later figures say what is covered, not what is found in other migrations.',
        `Dangerous without a warning: ${missed.map(nameIn).join(', ') || 'none'}.`,
        `Safe with a warning: ${warned.map(nameIn).join(', ') || 'none'}.`,
      ],
    );
    console.log(
      [`missed, of ${dangerous.length}:`, ...missed, `warned of, of ${safe.length}:`, ...warned].join('\n  '),
    );
    expect(1 - missed.length / dangerous.length).toBeGreaterThanOrEqual(set.recall);
    expect(warned.length, warned.join('; ')).toBeLessThanOrEqual(set.falseWarnings);
  },
);

interface Judged {
  readonly example: UnseenExample;
  readonly hazards: readonly Hazard[];
  readonly isTold: boolean;
}

async function judged(url: string, examples: readonly UnseenExample[]): Promise<Judged[]> {
  const folder = temporaryFolder();
  const found: Judged[] = [];
  for (const example of examples) {
    const file = path.join(folder, `${example.name}.sql`);
    writeFileSync(file, example.sql);
    const { report } = await rehearse(url, psqlCommand('-f', file));
    const { hazards, command } = report;
    const isGrave = hazards.some(({ severity }) => severity !== 'notice');
    found.push({ example, hazards, isTold: isGrave || command.exitCode !== 0 });
  }
  return found;
}

function rowOf(examples: string, judged: readonly Judged[]) {
  return {
    examples,
    of: judged.length,
    'warning, error or failure': judged.filter(({ isTold }) => isTold).length,
    'any hazard': judged.filter(({ isTold, hazards }) => isTold || hazards.length > 0).length,
  };
}

const nameIn = (words: string) => words.split(':')[0] ?? '';

function wordsOf({ example, hazards }: Judged): string {
  return `${example.name}: ${hazards.map(({ severity, code }) => `${severity} ${code}`).join(', ') || 'nothing'}`;
}
