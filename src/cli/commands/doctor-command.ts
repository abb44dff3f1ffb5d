import { unprovedBeforehand } from '../../clone/clone-section.ts';
import type { MethodId } from '../../clone/clone-settings.ts';
import type { Assessment } from '../../clone/method.ts';
import type { Privilege } from '../../database/privileges.ts';
import type { RoleFacts } from '../../database/target.ts';
import { type Diagnosis, diagnose, printedDiagnosis } from '../../doctor/examine.ts';
import { formatBytes, formatDuration } from '../../format.ts';
import { endOfLife } from '../../postgres/end-of-life.ts';
import { makeRehearsalPlan } from '../../rehearsal/plan.ts';
import { restrictionText } from '../../report/isolation-phrases.ts';
import { flow, type Span, type TextStyle, tone } from '../../report/text-layout.ts';
import { auditTo } from '../audit-file.ts';
import { EXIT } from '../exit-codes.ts';
import { DOCTOR_SETTINGS } from '../options/subcommand-settings.ts';
import { jsonText } from '../print.ts';
import { gatherOptions, nameServer } from '../read-options.ts';
import { styleOf } from '../style.ts';

/** Prints which ways to clone work for this target, and the reasons why others do not. @returns 0 if a rehearsal is possible. */
export async function doctorCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const { format, audit, ...settings } = await gatherOptions(DOCTOR_SETTINGS, flags);
  const diagnosis = await diagnose(
    makeRehearsalPlan({
      ...settings,
      audit: auditTo(audit),
      command: [],
      signal,
    }),
  );
  const style = styleOf(process.stdout);
  process.stdout.write(format === 'json' ? jsonText(printedDiagnosis(diagnosis)) : asText(diagnosis, style));
  return diagnosis.taken === null ? EXIT.cannotRehearse : EXIT.passed;
}

function asText(diagnosis: Diagnosis, style: TextStyle): string {
  const {
    target,
    methods,
    taken,
    privileges,
    differences,
    advice,
    copyOnWrite,
    sandbox,
    swapObstacles,
    onlineObstacles,
    wayBackObstacles,
    recommended,
    service,
  } = diagnosis;
  const { server, database, role } = target;
  const lines = [
    ...flow(style, [
      tone('strong', database.name),
      ` on ${nameServer(target)}: PostgreSQL ${server.version}, ${formatBytes(database.sizeBytes)}, as ${role.name}`,
    ]),
    ...endOfLifeLines(style, server.version),
    '',
    ...heading(style, 'Ways to clone it'),
    ...methods.flatMap(({ id, assessment }) => methodLines(style, id, assessment, id === taken, role)),
  ];
  if (service !== null) lines.push('', ...serviceLines(style, service));
  lines.push('', ...heading(style, 'The command'), ...flow(style, sandboxSpans(sandbox), 4, ['  ']));
  const lacking = privileges.filter(({ held }) => !held);
  const isNeeded = ({ methods }: Privilege) => methods.some((method) => method === recommended);
  if (recommended !== null)
    lines.push('', ...rightsBlock(style, diagnosis, recommended, lacking.filter(isNeeded)));
  const missing = lacking.filter((right) => !isNeeded(right));
  if (missing.length > 0) {
    lines.push(
      '',
      ...heading(
        style,
        recommended === null
          ? `Rights that ${role.name} lacks, with the statement that gives each`
          : `Rights that ${role.name} lacks for other ways, with the statement that gives each`,
      ),
    );
    for (const { right, purpose, grant } of missing) {
      lines.push(...flow(style, [tone('strong', right), `: ${purpose}`], 4, ['  ']));
      lines.push(...flow(style, [grant], 6, ['    ']));
    }
  }
  if (differences.length > 0) {
    lines.push('', ...heading(style, 'What a clone does not have as the target has it'));
    for (const { what, where } of differences) lines.push(...flow(style, [`${what} (${where})`], 4, ['  ']));
  }
  if (advice.length > 0) {
    lines.push('', ...heading(style, 'The file system'));
    for (const line of advice) lines.push(...flow(style, [line], 4, ['  ']));
  }
  if (copyOnWrite.length > 0) {
    lines.push('', ...heading(style, 'Settings that do not suit copy-on-write; nothing was changed'));
    for (const { found, change, why } of copyOnWrite) {
      lines.push(...flow(style, [tone('strong', found), `: ${why}`], 4, ['  ']));
      lines.push(...flow(style, [change], 6, ['    ']));
    }
  }
  lines.push(...obstacleLines(style, 'What prevents safemigrate swap', swapObstacles));
  lines.push(...obstacleLines(style, 'What swap --online lacks', onlineObstacles));
  const known = new Set(onlineObstacles.map(({ reason }) => reason));
  const more = wayBackObstacles.filter(({ reason }) => !known.has(reason));
  lines.push(...obstacleLines(style, 'What --way-back lacks as well', more));
  lines.push('', ...conclusion(style, taken));
  return `${lines.join('\n')}\n`;
}

function obstacleLines(style: TextStyle, title: string, obstacles: Diagnosis['swapObstacles']): string[] {
  if (obstacles.length === 0) return [];
  const each = obstacles.flatMap(({ reason, wayOut }) => [
    ...flow(style, [reason], 4, ['  ']),
    ...flow(style, [wayOut], 6, ['    ']),
  ]);
  return ['', ...heading(style, title), ...each];
}

function endOfLifeLines(style: TextStyle, version: string): string[] {
  const ended = endOfLife(version, new Date());
  return ended === undefined
    ? []
    : flow(style, [tone('warning', ended), ': safemigrate upgrade --to 18 rehearses the way out'], 4, ['  ']);
}

/** The hosted service that the target belongs to, and the two commands of a rehearsal there. */
function serviceLines(style: TextStyle, service: NonNullable<Diagnosis['service']>): string[] {
  const { title, cost, readyMs, program, rights, obstacle, wayOut, commands } = service;
  return [
    ...heading(style, `The target is at ${title}, which can clone it`),
    ...flow(style, [`a clone costs ${cost}; ready in about ${formatDuration(readyMs)}`], 4, ['  ']),
    ...billingWords(service).flatMap((words) => flow(style, [words], 4, ['  '])),
    ...flow(style, [`the login of ${program} needs ${rights}`], 4, ['  ']),
    ...(obstacle === null ? [] : flow(style, [tone('warning', 'not yet'), `: ${obstacle}`], 4, ['  '])),
    ...(wayOut === null ? [] : flow(style, [wayOut], 6, ['    '])),
    ...commands.map((command) => `    ${command}`),
  ];
}

/** The units by which a clone is billed, and how many of them it takes. */
function billingWords({ billing, instance, storageBytes }: NonNullable<Diagnosis['service']>): string[] {
  const { machine, storage } = billing;
  const units = [
    machine && `${machine}${instance === null ? '' : ` (${instance})`}`,
    storage && `${storage}${storageBytes === null ? '' : ` (${formatBytes(storageBytes)})`}`,
  ].filter(Boolean);
  return units.length === 0 ? [] : [`billed by ${units.join(', and by ')}`];
}

/** All statements for one method, to be pasted at once, and those that take the rights back. */
function rightsBlock(
  style: TextStyle,
  { target: { role }, maintenanceDatabase }: Diagnosis,
  method: MethodId,
  rights: readonly Privilege[],
): string[] {
  return [
    ...heading(
      style,
      `What ${role.name} needs for --clone ${method}; a superuser runs it in the database ${maintenanceDatabase}`,
    ),
    ...rights.map(({ grant }) => `    ${grant}`),
    ...flow(style, ['to take it back:'], 4, ['  ']),
    ...rights.map(({ revoke }) => `    ${revoke}`),
  ];
}

function heading(style: TextStyle, text: string): string[] {
  return flow(style, [tone('strong', text)]);
}

function sandboxSpans(sandbox: Diagnosis['sandbox']): Span[] {
  switch (sandbox.kind) {
    case 'sandboxed':
      return [tone('good', 'is sandboxed'), ` by ${sandbox.by}: no network but the proxy, no Unix socket`];
    case 'restricted':
      return [
        tone('warning', 'is restricted'),
        ` by ${restrictionText(sandbox)}; no sandbox, because ${sandbox.reason}`,
      ];
    case 'watched':
      return [
        tone('warning', 'can only be watched'),
        `, not sandboxed, and is not run if nothing in its arguments, its environment and .env names the target: ${sandbox.reason}`,
      ];
  }
}

const METHOD_WIDTH = 12;

function methodLines(
  style: TextStyle,
  id: string,
  assessment: Assessment,
  taken: boolean,
  role: RoleFacts,
): string[] {
  const first: Span[] = ['  ', tone('strong', id.padEnd(METHOD_WIDTH))];
  const indent = METHOD_WIDTH + 2;
  if (!assessment.possible) {
    return [
      ...flow(style, [tone('warning', 'no'), `: ${assessment.reason}`], indent, first),
      ...(assessment.enable?.split('\n') ?? []).flatMap((remedy, at) =>
        flow(style, [at === 0 ? `what would help: ${remedy}` : remedy], indent, [' '.repeat(indent)]),
      ),
    ];
  }
  const { readyMs, stallMs, bytes, endsSessions, isolation, strategy, reason } = assessment;
  const costs = [
    `${strategy}, ready in about ${formatDuration(readyMs)}`,
    bytes === 0 ? 'no space at first' : `${formatBytes(bytes)} of space`,
    endsSessions ? 'sessions that are connected now would have to go' : 'no session is disturbed',
    ...(stallMs > 0 ? [`new connections wait for up to ${formatDuration(stallMs)}`] : []),
    isolation === 'own-cluster' ? 'a server of its own' : "inside the target's server",
  ];
  return [
    ...flow(style, [tone('good', taken ? 'yes, taken' : 'yes'), `: ${costs.join('; ')}`], indent, first),
    ...[reason, ...(taken ? [unprovedBeforehand(assessment, role)] : [])].flatMap((text) =>
      text === null ? [] : flow(style, [tone('dim', text)], indent, [' '.repeat(indent)]),
    ),
  ];
}

function conclusion(style: TextStyle, taken: string | null): string[] {
  return taken === null
    ? flow(style, [tone('bad', 'A rehearsal is not possible here yet.')])
    : flow(style, [tone('good', 'A rehearsal is possible: '), `safemigrate -- <command> takes ${taken}.`]);
}
