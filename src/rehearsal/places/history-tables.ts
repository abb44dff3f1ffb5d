import { historyTableOf, type KnownTool } from '../../model/migration-tables.ts';

/** A file of a migrations folder, by what its tool records of it. */
export interface PlacedFile {
  readonly file: string;
  /** Files of another folder are compared by themselves. */
  readonly folder: string;
  readonly key: string;
  /** Its place in the order of the tool; numbers in it count as numbers. */
  readonly order: string;
  readonly isApplied: boolean;
  /** The tool does not take the file, by its name or because its list of files lacks it. */
  readonly isIgnored?: boolean;
}

/** Reads a file of the working folder; empty if it cannot be read. */
export type ReadSourceText = (file: string) => Promise<string>;

/** How the table in which a tool records its migrations is read. */
interface HistoryReading {
  readonly tool: KnownTool;
  /** All columns if `isExact`, since other tools have tables of this name. The first one identifies the migration. */
  readonly columns: readonly string[];
  readonly isExact?: true;
  /** The column for the app that has the migration. */
  readonly within?: string;
  /** The migrations are programs, without the text of their statements. */
  readonly isProgram?: true;
  /** Paths of migrations; the group is the key. Missing: it is not decided which of them the tool has applied. */
  readonly file?: RegExp;
  /** Names among them that the tool takes; missing: all. */
  readonly takes?: RegExp;
  /** Makes of a recorded value the key that the file's name has. */
  readonly keyOf?: (recorded: string) => string;
  /** Only the last migration is recorded. */
  readonly isLastOnly?: true;
  /** Two files with one key are no mistake that the tool itself reports. */
  readonly sharesKeys?: true;
  /** Finds keys and order where names do not have them. */
  readonly place?: (
    files: readonly PlacedFile[],
    recorded: ReadonlySet<string>,
    read: ReadSourceText,
  ) => Promise<PlacedFile[]>;
}

const stemOf = (name: string) => name.replace(/(?:\.up)?\.(?:[cm]?[jt]s|sql)$/, '');
const NUMBERED_SCRIPT = /(?:^|\/)(\d[^/]*?)(?:\.up)?(?<!\.d|\.down)\.(?:[cm]?[jt]s|sql)$/;

/** A table in which a tool records its migrations. */
export interface HistoryTable extends HistoryReading {
  readonly table: string;
}

/** A row for each tool. Left out are those whose folder or history cannot be read so, and those that always fail in such a case. */
const READINGS: readonly HistoryReading[] = [
  {
    tool: 'Prisma',
    columns: ['migration_name'],
    file: /(?:^|\/)([^/]+)\/migration\.sql$/,
  },
  {
    tool: 'Drizzle',
    columns: ['created_at'],
    file: /(?:^|\/)(\d{4}_[^/]+)\.sql$/,
    place: drizzlePlaces,
  },
  {
    tool: 'Flyway',
    columns: ['script'],
    file: /(?:^|\/)(V\d[^/]*\.sql)$/i,
    takes: /^V[\d._]*\d__.*\.sql$/,
    keyOf: (script) => script.replace(/^.*\//, ''),
    place: flywayPlaces,
  },
  {
    tool: 'Rails',
    columns: ['version'],
    isExact: true,
    isProgram: true,
    file: /(?:^|\/)0*(\d+)[^/]*\.rb$/,
    takes: /_/,
  },
  {
    tool: 'dbmate',
    columns: ['version'],
    isExact: true,
    file: /(?:^|\/)(\d+)[^/]*\.sql$/,
    sharesKeys: true,
  },
  {
    tool: 'golang-migrate',
    columns: ['version', 'dirty'],
    isExact: true,
    file: /(?:^|\/)0*(\d+)_[^/]*\.up\.sql$/,
    isLastOnly: true,
  },
  {
    tool: 'goose',
    columns: ['version_id'],
    file: /(?:^|\/)0*(\d+)_[^/]+(?<!_test)\.(?:sql|go)$/,
  },
  {
    tool: 'sqlx',
    columns: ['version'],
    file: /(?:^|\/)0*(\d+)_[^/]+(?<!\.down)\.sql$/,
  },
  {
    tool: 'Alembic',
    columns: ['version_num'],
    isProgram: true,
    file: /(?:^|\/)versions\/([^/]+)\.py$/,
    // `upgrade head` refuses them; `upgrade heads` only warns, and takes one of both.
    sharesKeys: true,
    place: alembicPlaces,
  },
  {
    tool: 'Knex',
    columns: ['name'],
    isProgram: true,
    file: NUMBERED_SCRIPT,
    keyOf: stemOf,
  },
  {
    tool: 'node-pg-migrate',
    columns: ['name'],
    isProgram: true,
    file: NUMBERED_SCRIPT,
    keyOf: stemOf,
  },
  {
    tool: 'Sequelize',
    columns: ['name'],
    isProgram: true,
    file: NUMBERED_SCRIPT,
    keyOf: stemOf,
  },
  {
    tool: 'TypeORM',
    columns: ['name', 'timestamp'],
    isProgram: true,
    file: /(?:^|\/)(\d{13})-[^/]+(?<!\.d)\.[cm]?[jt]s$/,
    keyOf: (name) => name.slice(-13),
  },
  { tool: 'Django', columns: ['name'], within: 'app', isProgram: true },
  { tool: 'Kysely', columns: ['name'], isProgram: true },
  { tool: 'MikroORM', columns: ['name'], isProgram: true },
];

export const HISTORY_TABLES: readonly HistoryTable[] = READINGS.map((reading) => ({
  ...reading,
  table: historyTableOf(reading.tool),
}));

const LATEST = String(Number.MAX_SAFE_INTEGER);

/** Drizzle reads a list in its folder, and applies the entries with a later time than the last recorded one. */
async function drizzlePlaces(
  files: readonly PlacedFile[],
  recorded: ReadonlySet<string>,
  read: ReadSourceText,
): Promise<PlacedFile[]> {
  const journals = new Map<string, ReadonlyMap<string, string>>();
  for (const folder of new Set(files.map((each) => each.folder)))
    journals.set(folder, journalTimes(await read(`${folder}meta/_journal.json`)));
  return files.flatMap((each) => {
    const times = journals.get(each.folder);
    if (times === undefined || times.size === 0) return [];
    const time = times.get(each.key);
    if (time === undefined) return [{ ...each, order: LATEST, isIgnored: true }];
    return [{ ...each, key: time, order: time, isApplied: recorded.has(time) }];
  });
}

function journalTimes(text: string): ReadonlyMap<string, string> {
  try {
    const { entries = [] } = JSON.parse(text) as { entries?: readonly { tag: string; when: number }[] };
    return new Map(entries.map(({ tag, when }) => [tag, String(when)]));
  } catch {
    return new Map();
  }
}

/** A file of settings beside a migration may switch it off. */
async function flywayPlaces(
  files: readonly PlacedFile[],
  _recorded: ReadonlySet<string>,
  read: ReadSourceText,
): Promise<PlacedFile[]> {
  const settings = await Promise.all(files.map(({ file }) => read(`${file}.conf`)));
  return files.filter((_, at) => !/shouldExecute/i.test(settings[at] ?? ''));
}

interface Revision extends PlacedFile {
  readonly after: readonly string[];
}

const REVISION = /^revision\b[^=\n]*=\s*["']([^"']+)["']/m;
const AFTER = /^(?:down_revision|depends_on)\b[^=\n]*=\s*(\([^)]*\)|\[[^\]]*\]|[^\n]*)/gm;
/** Branches with a name are meant to be there side by side. */
const LABELLED = /^branch_labels\b[^=\n]*=\s*(?!None\b)\S/m;

/**
 * Places files by the revisions in them. Alembic records only the last one of each branch: those before it are applied, those after
 * it are pending, and what branches off from an applied one is passed over.
 */
async function alembicPlaces(
  files: readonly PlacedFile[],
  recorded: ReadonlySet<string>,
  read: ReadSourceText,
): Promise<PlacedFile[]> {
  const revisions: Revision[] = [];
  for (const each of files) {
    const text = await read(each.file);
    const key = REVISION.exec(text)?.[1];
    if (LABELLED.test(text)) return [];
    const after = [...text.matchAll(AFTER)].flatMap(([, words = '']) =>
      [...words.matchAll(/["']([^"']+)["']/g)].map(([, name = '']) => name),
    );
    if (key !== undefined) revisions.push({ ...each, key, after });
  }
  const byKey = new Map(revisions.map((each) => [each.key, each]));
  const before = (key: string, found = new Set<string>()): Set<string> => {
    if (found.has(key)) return found;
    found.add(key);
    for (const each of byKey.get(key)?.after ?? []) before(each, found);
    return found;
  };
  const applied = new Set([...recorded].flatMap((key) => [...before(key)]));
  return revisions.flatMap((each) => {
    const own = [...before(each.key)];
    // A branch with another root, or with a revision that is in no file, is not judged.
    if (own.some((key) => !byKey.has(key)) || !own.some((key) => applied.has(key))) return [];
    const isApplied = applied.has(each.key);
    // Applied ones, those that branch off from these, the last applied ones, and those after them.
    const order = String((isApplied ? 1 : 2) + (own.some((key) => recorded.has(key)) ? 2 : 0));
    return [{ ...each, order, isApplied }];
  });
}
