/** The ways to make a clone, by the words of `--clone`. */
export const METHOD_IDS = ['cluster', 'template', 'external', 'dump', 'basebackup'] as const;
export type MethodId = (typeof METHOD_IDS)[number];
