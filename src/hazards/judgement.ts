import type { HazardFacts } from '../model/hazard-facts.ts';
import type { Profile } from '../model/profile-model.ts';
import type { AppCheck, CommandSection, DataSection, SchemaSection } from '../model/report.ts';
import { findAppHazards } from './app-hazards.ts';
import { findHazards } from './catalogue.ts';
import { changedNothing, findExitCodeHazards } from './exit-code-checks.ts';
import { type ForecastInput, forecast } from './forecast.ts';
import { findLoadHazards, foretells } from './load-hazards.ts';
import { applyPolicy } from './policy.ts';
import type { Policy } from './policy-settings.ts';
import { atProductionSize } from './production/at-production-size.ts';
import { findDiskHazards } from './traffic-hazards.ts';
import { type Findings, judge } from './verdict.ts';

/** Everything that was measured in a rehearsal. */
export type RehearsalEvidence = Omit<
  Findings,
  'hazards' | 'forecast' | 'schema' | 'data' | 'changedNothing'
> &
  Omit<HazardFacts, 'traffic'> &
  Omit<ForecastInput, 'schema' | 'data' | 'profiledAt'> & {
    readonly command: CommandSection;
    readonly schema: SchemaSection | null;
    readonly data: DataSection | null;
    readonly app?: readonly AppCheck[] | undefined;
  };

/**
 * Finds the hazards, makes the forecast, and reaches the verdict.
 * @param today the date, as `2026-11-21`
 * @param profile the sizes and rates to judge by, instead of those that were measured
 * @returns with the statements, with their times at production's size if there is a profile, and the relations that are missing in it
 */
export function reachJudgement(
  measured: RehearsalEvidence,
  policy: Policy,
  today: string,
  profile: Profile | null = null,
) {
  const sized = profile && atProductionSize(measured, profile);
  const evidence = sized?.judged ?? measured;
  const expected = forecast({ ...evidence, profiledAt: profile?.takenAt ?? null });
  const underLoad = findLoadHazards(evidence.load, evidence.statements);
  const found = [
    ...findExitCodeHazards(evidence),
    ...findDiskHazards(expected.section),
    ...underLoad,
    ...findAppHazards(evidence.app ?? []),
    ...findHazards({
      ...evidence,
      traffic: expected.rates?.relations ?? null,
      transactionsPerSecond: expected.rates?.transactionsPerSecond ?? null,
      lockTable: 'unmeasured' in evidence.traffic ? undefined : evidence.traffic.lockTable,
      logicalSlots: 'unmeasured' in evidence.traffic ? undefined : evidence.traffic.logicalSlots,
      indexScans: 'unmeasured' in evidence.traffic ? undefined : evidence.traffic.indexScans,
      openTransactions: 'unmeasured' in evidence.traffic ? undefined : evidence.traffic.holders,
      oldestTransactionMs:
        'unmeasured' in evidence.traffic ? undefined : evidence.traffic.oldestTransaction?.ageMs,
    }).filter(({ code }) => !underLoad.some(({ code: measured }) => foretells(code, measured))),
  ];
  const hazards = applyPolicy(found, policy, today);
  const caveats = [...evidence.caveats, ...(sized?.caveats ?? []), ...expected.caveats];
  const findings = {
    ...evidence,
    hazards,
    forecast: expected.section,
    caveats,
    changedNothing: changedNothing(evidence),
  };
  return {
    hazards,
    forecast: expected.section,
    caveats,
    verdict: judge(findings, policy, today),
    statements: sized?.statements ?? measured.statements,
    missing: sized?.missing ?? [],
  };
}
