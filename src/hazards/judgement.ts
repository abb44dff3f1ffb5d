import type { HazardFacts } from '../model/hazard-facts.ts';
import type { Caveat, DataSection, ForecastSection, Hazard, SchemaSection } from '../model/report.ts';
import { findDiskHazards } from './disk-hazards.ts';
import { findExitCodeHazards } from './exit-code-checks.ts';
import { findHazards } from './find-hazards.ts';
import { type ForecastInput, forecast } from './forecast.ts';
import { applyPolicy, type Policy } from './policy.ts';
import { type Findings, judge, type Verdict } from './verdict.ts';

/** Everything that was measured in a rehearsal. */
export type RehearsalEvidence = Omit<Findings, 'hazards' | 'forecast' | 'schema' | 'data'> &
  Omit<HazardFacts, 'traffic'> &
  Omit<ForecastInput, 'schema' | 'data'> & {
    readonly schema: SchemaSection | null;
    readonly data: DataSection | null;
  };

export interface Judgement {
  readonly hazards: Hazard[];
  readonly forecast: ForecastSection | null;
  readonly verdict: Verdict;
  readonly caveats: Caveat[];
}

/** Finds the hazards, makes the forecast, and reaches the verdict. @param today the date, as `2026-11-21`. */
export function reachJudgement(evidence: RehearsalEvidence, policy: Policy, today: string): Judgement {
  const expected = forecast(evidence);
  const found = [
    ...findExitCodeHazards(evidence),
    ...findDiskHazards(expected.section),
    ...findHazards({ ...evidence, traffic: expected.rates?.relations ?? null }),
  ];
  const hazards = applyPolicy(found, policy, today);
  const caveats = [...evidence.caveats, ...expected.caveats];
  const findings = { ...evidence, hazards, forecast: expected.section, caveats };
  return { hazards, forecast: expected.section, verdict: judge(findings, policy, today), caveats };
}
