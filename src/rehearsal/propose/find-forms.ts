import { findHazards } from '../../hazards/catalogue.ts';
import { HazardContext } from '../../hazards/hazard-context.ts';
import { isUnmeasured, measuredOrReason } from '../../measured.ts';
import type { Hazard } from '../../model/report.ts';
import { keptStatements } from '../../propose/kept-statements.ts';
import { isAskedFor, isDividing, isScripted } from '../../propose/scripted-hazards.ts';
import { type ScriptChange, writeScript } from '../../propose/write-script.ts';
import type { ExtraRun } from '../extra-run.ts';
import { readFactsBefore } from './propose.ts';
import { hazardFactsOf } from './prove-script.ts';

/** Which hazards a script would take away, if none was asked for: it is written, and neither kept nor tried. */
export const SAFER_FORMS: ExtraRun = {
  path: 'hazards',
  isAsked: ({ propose, proxy }) => propose === null && proxy.observe === 'exact',
  run: async ({ setup, prepared, ran, after }) => {
    const { exitCode } = ran.result;
    const { version } = setup.context.target.server;
    const facts = hazardFactsOf({ ...after, exitCode }, prepared.profile?.profile ?? null);
    const found = findHazards(facts).filter(({ code }) => isScripted(code, { all: true, version }));
    if (exitCode !== 0 || found.length === 0) return {};
    const { sent, sessions } = after.seen;
    const recording = { context: new HazardContext(facts), sent, sessions };
    const changes = await measuredOrReason(async () => {
      const kept = await keptStatements(recording, found, 'safer');
      return writeScript(recording, await readFactsBefore(setup, recording.context), kept, found).changes;
    });
    // If the statements cannot be written as a script, there is no safer form of any.
    return isUnmeasured(changes) ? {} : { saferForms: changes };
  },
};

/** Marks the hazards that a script would take away. */
export function withSaferForms(
  hazards: readonly Hazard[],
  changes: readonly ScriptChange[],
  version: string,
): Hazard[] {
  return hazards.map((hazard) => {
    const { code } = hazard;
    const isTaken = changes.some(
      ({ statement, codes }) => codes.includes(code) && (statement === hazard.statement || isDividing(code)),
    );
    return isTaken ? { ...hazard, saferForm: isAskedFor(code, { version }) ? 'asked' : 'default' } : hazard;
  });
}
