/** Of one code how often it was told rightly, wrongly, and not at all, over all migrations. */
export interface Score {
  readonly code: string;
  readonly right: number;
  readonly wrong: number;
  readonly missed: number;
}

export interface Judged {
  readonly migration: string;
  readonly expected: readonly string[];
  /** Codes of warnings and errors. */
  readonly told: readonly string[];
}

/** By code, the total last. */
export function scores(judged: readonly Judged[]): Score[] {
  const codes = [...new Set(judged.flatMap(({ expected, told }) => [...expected, ...told]))].sort();
  const byCode = codes.map((code) => {
    const of = (expected: boolean, told: boolean) =>
      judged.filter((each) => each.expected.includes(code) === expected && each.told.includes(code) === told);
    return {
      code,
      right: of(true, true).length,
      wrong: of(false, true).length,
      missed: of(true, false).length,
    };
  });
  const sum = (what: 'right' | 'wrong' | 'missed') => byCode.reduce((total, each) => total + each[what], 0);
  return [...byCode, { code: 'all', right: sum('right'), wrong: sum('wrong'), missed: sum('missed') }];
}

export function precision({ right, wrong }: Score): number {
  return right + wrong === 0 ? 1 : right / (right + wrong);
}

export function recall({ right, missed }: Score): number {
  return right + missed === 0 ? 1 : right / (right + missed);
}

/** A row of the table of figures. */
export function scoreRow(score: Score): Record<string, string | number> {
  const { code, right, wrong, missed } = score;
  const share = (value: number) => `${(value * 100).toFixed(1)} %`;
  return {
    hazard: code,
    right,
    wrong,
    missed,
    precision: share(precision(score)),
    recall: share(recall(score)),
  };
}
