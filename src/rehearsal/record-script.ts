import { resolve } from 'node:path';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { HazardContext } from '../hazards/hazard-context.ts';
import { isUnmeasured, measuredOrReason } from '../measured.ts';
import type { ScriptSection } from '../model/report.ts';
import { nameTarget } from '../ownership/folder-records.ts';
import { renderScript, writeVerbatim } from '../propose/write-script.ts';
import type { ExtraRun, FirstRun } from './extra-run.ts';
import { hazardFactsOf } from './propose/prove-script.ts';
import { writeFileWhole } from './write-whole.ts';

/** The file with what the command sent (`--script`). */
export const RECORDED_SCRIPT: ExtraRun = {
  path: 'script',
  isAsked: ({ script }) => script !== null,
  run: async (first) => ({ sections: { script: await recordScript(first) } }),
};

async function recordScript({ setup, prepared, ran, after }: FirstRun): Promise<ScriptSection> {
  const { plan, context } = setup;
  const { command } = prepared;
  const run = { ...after, exitCode: ran.result.exitCode };
  const none = { file: null, statements: 0, transactions: 0 };
  if (run.exitCode !== 0) return { ...none, reason: 'the command did not succeed' };
  if (plan.proxy.observe === 'off')
    return { ...none, reason: 'statements were not observed (SAFEMIGRATE_OBSERVE=off)' };
  const written = await measuredOrReason(async () => {
    const { sent, sessions } = run.seen;
    const facts = new HazardContext(hazardFactsOf(run));
    const { parts, statements, transactions } = await writeVerbatim({ context: facts, sent, sessions });
    if (parts.length === 0) return { ...none, reason: 'the command sent nothing that leaves anything' };
    const file = resolve(plan.command.folder, plan.script ?? '');
    const words = commandWithoutSecrets(plan.command.argv, command.logins.logins).join(' ');
    const user = [...sessions.values()][0]?.user ?? context.target.settings.user;
    const text = renderScript(parts, heading(words, user), ['\\set ON_ERROR_STOP on']);
    await writeFileWhole(file, text, nameTarget(context.target));
    return { file, reason: null, statements, transactions };
  });
  return isUnmeasured(written) ? { ...none, reason: written.unmeasured } : written;
}

function heading(command: string, role: string): string[] {
  return [
    'What a migration command sent to PostgreSQL, recorded in a rehearsal by safemigrate --script.',
    `Command: ${command}`,
    '',
    `Run it as the role ${role}, to which everything it makes then belongs: psql -f FILE, not in one transaction (-1).`,
    'It has the values that the command sent, and what the migration tool records about itself: the tool will find its migration applied.',
    'If it stops, what stands before the failed transaction is done.',
  ];
}
