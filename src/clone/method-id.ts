/** The clone methods, as --clone names them. */
export const METHOD_IDS = ['cluster', 'template', 'external', 'dump', 'basebackup'] as const;
/** `archive` is that of --clone-at. */
export type MethodId = (typeof METHOD_IDS)[number] | 'archive';
