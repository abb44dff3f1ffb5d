/** A file of a migrations folder, by what its tool records of it. */
export interface PlacedFile {
  readonly file: string;
  /** Files of another folder are compared by themselves. */
  readonly folder: string;
  readonly key: string;
  /** Its place in the order of the tool; numbers in it count as numbers. */
  readonly order: string;
  readonly isApplied: boolean;
  /** The tool does not take the file, by its name or because its list of files lacks it. */
  readonly isIgnored?: boolean;
}

/** Reads a file of the working folder; empty if it cannot be read. */
export type ReadSourceText = (file: string) => Promise<string>;
