import type { FakeService, Thing } from './fake-service.ts';
import { textsOf } from './moto.ts';
import { upgradePrograms } from './upgrade-programs.ts';

/** The fake's release of the old version, and those that it offers. */
export const OLD_RELEASE = '17.2';
const OFFERED = ['17.6', '18.9', '18.10'];
export const NEW_RELEASE = '18.10';
/** Programs that copy a clone's database to the newer server. */
export const COPYING = await upgradePrograms(18);

export const EVENT = 'Database instance is in a state that cannot be upgraded: PreUpgrade checks failed';
export const LOG = 'The instance could not be upgraded because there are views of the extension shop.';

/** Requests of an upgrade that moto does not know: the fake answers them as the documentation of AWS shows. */
export function answerOfUpgrade(asked: URLSearchParams, engine: string): string | undefined {
  const list = (name: string, each: string, members: readonly string[]) =>
    `<${name}>${members.map((member) => `<${each}>${member}</${each}>`).join('')}</${name}>`;
  const answered = (action: string, result: string) =>
    `<${action}Response xmlns="http://rds.amazonaws.com/doc/2014-10-31/"><${action}Result>${result}</${action}Result></${action}Response>`;
  const action = asked.get('Action') ?? '';
  switch (action) {
    case 'DescribeDBEngineVersions': {
      if (asked.get('Engine') !== engine || asked.get('EngineVersion') !== OLD_RELEASE)
        throw new Error(`offers of another version: ${asked}`);
      // The release of an old server is often offered for new ones no more.
      if (asked.get('IncludeAll') !== 'true') throw new Error('only available releases');
      const targets = OFFERED.map((release) => `<EngineVersion>${release}</EngineVersion>`);
      const version = list('ValidUpgradeTarget', 'UpgradeTarget', targets);
      return answered(action, list('DBEngineVersions', 'DBEngineVersion', [version]));
    }
    case 'DescribeEvents':
      return answered(action, list('Events', 'Event', [`<Message>${EVENT}</Message>`]));
    case 'DescribeDBLogFiles': {
      const files = ['<LogFileName>error/pg_upgrade_precheck.log.1</LogFileName>'];
      return answered(action, list('DescribeDBLogFiles', 'DescribeDBLogFilesDetails', files));
    }
    case 'DownloadDBLogFilePortion':
      return answered(
        action,
        `<LogFileData>${LOG}\n\n</LogFileData><AdditionalDataPending>false</AdditionalDataPending>`,
      );
    default:
      return undefined;
  }
}

/** Upgrades the clone that a request of a change names. @throws an error if it does not ask as AWS demands. */
export async function upgradeByRequest(
  asked: URLSearchParams,
  name: string,
  fake: FakeService,
  group: string,
) {
  const wanted = { EngineVersion: NEW_RELEASE, AllowMajorVersionUpgrade: 'true', ApplyImmediately: 'true' };
  for (const [option, value] of Object.entries(wanted))
    if (asked.get(option) !== value) throw new Error(`${option} is ${asked.get(option)}`);
  if (asked.get(group) !== null)
    throw new Error('a group of parameters, although the source has none of its own');
  await fake.upgrade(name, COPYING.programs);
}

/** Changes the part of an answer about a clone that is being upgraded: moto's has the new version at once. */
export function whileUpgrading(part: string, thing: Thing, fake: FakeService, status: string): string {
  const state = fake.upgradeState(thing);
  if (state === 'none' || state === 'done') return part;
  const pending = `<PendingModifiedValues><EngineVersion>${NEW_RELEASE}</EngineVersion></PendingModifiedValues>`;
  const old = part
    .replace(/<PendingModifiedValues>.*?<\/PendingModifiedValues>|<PendingModifiedValues ?\/>/s, '')
    .replace(/<EngineVersion>.*?<\/EngineVersion>/, `<EngineVersion>${OLD_RELEASE}</EngineVersion>`);
  if (state === 'failed') return old;
  const shown = state === 'running' ? old.replace(`<${status}>available<`, `<${status}>upgrading<`) : old;
  return shown.replace('<EngineVersion>', `${pending}<EngineVersion>`);
}

/** The release in a description by moto. */
export function releaseIn(xml: string): string | undefined {
  return textsOf(xml, 'EngineVersion')[0];
}
