import path from 'node:path';
import { serverSettings } from '../clone/private/server-settings.ts';
import { startCopied } from '../local-server/copied.ts';
import type { Caveat } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { OldAnswers } from './ask-application.ts';
import { addSettings, type OldCluster, type OldFacts, serverIn, settingsText } from './old-cluster.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';
import { endOf, runSandboxed, runWell, untilAborted } from './sandboxed-programs.ts';

/** An empty cluster of the new version, like the old one, that was started once and shut down. */
export type NewCluster = Awaited<ReturnType<typeof makeNewCluster>>;

/** Both clusters, stopped, of which each mode gets a copy of its own. */
export interface Clusters {
  readonly prepared: PreparedUpgrade;
  readonly old: OldCluster;
  readonly fresh: NewCluster;
  /** Answers of the old version. */
  readonly answers: OldAnswers;
}

/** Properties of the new installation. */
export interface NewFacts {
  /** Defaults of settings, by name. */
  readonly settings: ReadonlyMap<string, string>;
  /** Default versions of extensions, by name. */
  readonly extensions: ReadonlyMap<string, string>;
  readonly reserved: ReadonlySet<string>;
  /** The installation was built with ICU. */
  readonly icu: boolean;
  /** Libraries, of those that functions of the old cluster name, that it does not have. */
  readonly absentLibraries: ReadonlySet<string>;
  /** Options that its own columns have: it knows them. */
  readonly columnOptions: ReadonlySet<string>;
}

const SETTINGS = "SELECT name, coalesce(boot_val, '') AS value FROM pg_settings";
// Without ICU there is one collation of its provider all the same, but none that initdb found.
const ICU = "SELECT EXISTS (SELECT FROM pg_collation WHERE collname LIKE '%-x-icu') AS icu";
// Of a name without $libdir it depends on a setting where the library is.
const ABSENT = `
SELECT library FROM unnest($1::text[]) AS library, pg_config AS c,
       LATERAL (SELECT replace(library, '$libdir', c.setting) AS path) AS p
 WHERE c.name = 'PKGLIBDIR' AND p.path LIKE '/%' AND NOT EXISTS (
   SELECT FROM unnest('{"",.so,.dylib}'::text[]) AS ending WHERE (pg_stat_file(p.path || ending, true)).size IS NOT NULL)`;
const RESERVED = "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')";
const COLUMN_OPTIONS = `
SELECT DISTINCT split_part(option, '=', 1) AS name FROM pg_attribute CROSS JOIN unnest(attoptions) AS option`;
const EXTENSIONS = 'SELECT name::text, default_version AS value FROM pg_available_extensions';

/**
 * Makes the cluster with the old one's properties, and reads what the installation has.
 * @param libraries that functions of the old cluster name.
 * @throws SafemigrateError `CLONE` if this installation can make no cluster.
 */
export async function makeNewCluster(
  prepared: PreparedUpgrade,
  old: OldCluster,
  libraries: readonly string[],
) {
  const { context, newPrograms, copy } = prepared;
  const { folder } = copy;
  const data = path.join(folder, 'new');
  const words = [path.join(newPrograms.folder, 'initdb'), '-D', data];
  const initdb = await runSandboxed(old.sandbox, [...words, ...initdbOptions(old.facts, newPrograms.major)]);
  const refusal = initdb.exitCode === 0 ? null : endOf(initdb);
  if (refusal !== null) await runWell(old.sandbox, [...words, ...commonOptions(old.facts), '--locale=C']);
  const { place, original } = old.copy;
  const inPlace = {
    folder,
    socketFolder: place.socketFolder,
    programs: newPrograms.folder,
    run: context.run,
  };
  const shape = {
    versionNum: newPrograms.major * 10_000,
    inPlaceTablespaces: false,
    ignoreInvalidPages: false,
  };
  // It starts with its own defaults first, since it may not know all settings of the old one.
  const bare = await serverSettings({ ...original, settings: new Map() }, { ...inPlace, ...shape });
  const facts = await readNewFacts(prepared, old, { ...bare.fixed, data_directory: data }, libraries);
  const known = [...original.settings].filter(
    ([name, value]) => !refusesSetting(facts.settings, newPrograms.major, name, value),
  );
  const own = await serverSettings({ ...original, settings: new Map(known) }, { ...inPlace, ...shape });
  await addSettings(data, own.file + settingsText(own.fixed));
  return {
    data,
    // For the command line of its server.
    settings: { ...own.fixed, data_directory: '' },
    initdbMs: initdb.durationMs,
    // Message of initdb if it could not make a cluster like the old one: this one has its defaults, to see what is installed.
    refusal,
    facts,
    // Those that the target preloads and this installation lacks.
    missingLibraries: own.missingLibraries,
    caveats: own.caveats.map((caveat): Caveat => ({ ...caveat, path: 'modes' })),
  };
}

/** Former names of settings, which servers still take. */
const RENAMED = new Set(['sort_mem', 'vacuum_mem', 'ssl_ecdh_curve', 'force_parallel_mode']);
/** From this version on there are no other string literals. */
const STANDARD_STRINGS_SINCE = 19;

/** Tells if a server refuses to have a setting, by the names that it knows. */
export function refusesSetting(
  known: { has(name: string): boolean },
  major: number,
  name: string,
  value: string,
): boolean {
  if (name.includes('.') || RENAMED.has(name)) return false;
  const isOff = name === 'standard_conforming_strings' && !/^(?:on|t|y|1)/i.test(value);
  return !known.has(name) || (isOff && major >= STANDARD_STRINGS_SINCE);
}

/** The options of initdb that make a cluster to which pg_upgrade can upgrade one with these properties. */
export function initdbOptions(facts: OldFacts, major: number): string[] {
  const { checksums, walSegmentBytes, encoding, provider, collate, ctype, locale } = facts;
  const providers: Record<string, string[]> = {
    i: ['--locale-provider=icu', `--icu-locale=${locale ?? collate}`],
    b: ['--locale-provider=builtin', `--builtin-locale=${locale ?? 'C'}`],
  };
  // Until version 17 without them was the default, and the option unknown.
  const without = major >= 18 ? ['--no-data-checksums'] : [];
  return [
    ...commonOptions(facts),
    ...[`--encoding=${encoding}`, `--lc-collate=${collate}`, `--lc-ctype=${ctype}`],
    ...(providers[provider] ?? []),
    `--wal-segsize=${walSegmentBytes / 2 ** 20}`,
    ...(checksums ? ['--data-checksums'] : without),
  ];
}

function commonOptions({ superuser }: OldFacts): string[] {
  return ['-U', superuser, '--auth=trust', '--no-sync', '--no-instructions'];
}

interface Named {
  name: string;
  value: string;
}

async function readNewFacts(
  { context, newPrograms }: PreparedUpgrade,
  { sandbox, copy, facts }: OldCluster,
  settings: Readonly<Record<string, string>>,
  libraries: readonly string[],
): Promise<NewFacts> {
  const log = path.join(sandbox.folder, 'new.log');
  const data = path.join(sandbox.folder, 'new');
  const server = await startCopied({ ...sandbox, programs: newPrograms.folder, data, log, settings });
  const read = await withSession(
    serverIn(copy.place.socketFolder, facts.superuser, context).enter('postgres'),
    async (session) => ({
      ...(await readInstalled(session)),
      absent: await session.query<{ library: string }>(ABSENT, [libraries]),
    }),
  );
  await untilAborted(server.stop(), sandbox.signal);
  const { absent, ...installed } = read;
  return { ...installed, absentLibraries: new Set(absent.map(({ library }) => library)) };
}

/** Reads what any role may read of an installation. */
export async function readInstalled(session: Session): Promise<Omit<NewFacts, 'absentLibraries'>> {
  const settings = await session.query<Named>(SETTINGS);
  const extensions = await session.query<Named>(EXTENSIONS);
  const reserved = await session.query<{ word: string }>(RESERVED);
  const columnOptions = await session.query<{ name: string }>(COLUMN_OPTIONS);
  return {
    icu: (await session.query<{ icu: boolean }>(ICU))[0]?.icu ?? false,
    reserved: new Set(reserved.map(({ word }) => word)),
    columnOptions: new Set(columnOptions.map(({ name }) => name)),
    settings: new Map(settings.map(({ name, value }) => [name, value])),
    extensions: new Map(extensions.map(({ name, value }) => [name, value])),
  };
}
