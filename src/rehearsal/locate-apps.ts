import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { type CommandInput, findLogins } from '../command/rewrite.ts';
import type { Compare } from '../database/same-target.ts';
import { SafemigrateError } from '../errors.ts';
import type { AppCheck } from '../model/report.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { RehearsalPlan } from './plan.ts';
import type { LocatedCommand } from './run-on-clone.ts';

/** Checks of one release. */
export interface App extends LocatedCommand, Pick<AppCheck, 'release'> {
  readonly folder: string;
}

/** @throws SafemigrateError `CONFIGURATION` */
export function requireAppFolder(plan: RehearsalPlan): void {
  const { appDir } = plan.checks;
  if (appDir === null || statSync(folderOf(plan), { throwIfNoEntry: false })?.isDirectory()) return;
  throw new SafemigrateError('CONFIGURATION', `appDir: ${appDir} does not exist, or is a file.`, {
    hint: 'Name the folder of a checkout of the release that runs now. Nothing was touched.',
  });
}

function folderOf({ checks, command }: RehearsalPlan): string {
  return resolve(command.folder, checks.appDir ?? '.');
}

/** Finds where the checks know the target from. */
export async function locateApps(plan: RehearsalPlan, input: CommandInput, compare: Compare): Promise<App[]> {
  const { checks, command } = plan;
  const given = [
    ...checks.app.map((shell) => ({ release: 'old', shell, folder: folderOf(plan) }) as const),
    ...checks.appNew.map((shell) => ({ release: 'new', shell, folder: command.folder }) as const),
  ];
  const apps: App[] = [];
  for (const { shell, folder, release } of given) {
    const own = {
      ...input,
      argv: ['sh', '-c', shell],
      environment: readEnvironment(command.env, folder),
    };
    apps.push({ release, folder, input: own, logins: await findLogins(own, compare) });
  }
  return apps;
}
