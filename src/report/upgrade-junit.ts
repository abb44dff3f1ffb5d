import type { UpgradeReport } from '../model/upgrade-model.ts';
import { type JunitCase, junitDocument } from './junit.ts';
import { upgradeSummary, wayBackWords } from './upgrade-phrases.ts';

/** Renders the report of an upgrade as JUnit XML: the verdict, each mode and each obstacle is a test case. */
export function renderUpgradeJunit(report: UpgradeReport): string {
  const { verdict, modes, obstacles, to, run } = report;
  const name = `upgrade to PostgreSQL ${to.major}`;
  const summary: JunitCase = verdict.pass
    ? { name, seconds: 0, output: upgradeSummary(report) }
    : { name, seconds: 0, failure: verdict.reasons.join('\n') };
  const tried = modes.map((each): JunitCase => {
    const { mode, outcome, reason, downtimeMs } = each;
    const named = { name: `pg_upgrade --${mode}`, seconds: (downtimeMs ?? 0) / 1000 };
    if (outcome === 'failed') return { ...named, failure: reason ?? 'it failed' };
    return { ...named, output: reason ?? `way back: ${wayBackWords(each)}` };
  });
  const found = obstacles.map(({ code, severity, message, objects, remedy, sql }): JunitCase => {
    const text = [message, ...objects.map((object) => `- ${object}`), `Do: ${remedy}`, ...sql].join('\n');
    return { name: code, seconds: 0, ...(severity === 'error' ? { failure: text } : { output: text }) };
  });
  return junitDocument(
    [
      { name: 'upgrade', cases: [summary] },
      { name: 'modes', cases: tried },
      { name: 'obstacles', cases: found },
    ],
    run.startedAt,
  );
}
