import type { ApplicationSection, ModeSection, UpgradeObstacle } from '../../model/upgrade-model.ts';
import type { NewFacts } from '../new-cluster.ts';
import type { TargetClusterFacts } from '../target-cluster.ts';

/** One thing that an obstacle concerns, and the statement that removes it, if there is one. */
export interface Found {
  readonly object: string;
  readonly sql?: string | null;
}

/** Facts about both versions. */
export interface UpgradeFacts {
  readonly from: number;
  readonly to: number;
  /** With the minor release, as `15.20`. */
  readonly releases: { readonly from: string; readonly to: string };
  readonly target: TargetClusterFacts;
  readonly installed: NewFacts;
  /** Message of initdb if it could not make a cluster like the old one. */
  readonly initdbRefusal: string | null;
  /** Rows that the rules' queries returned on the copy of the old cluster, by the code of the rule. */
  readonly rows: ReadonlyMap<string, readonly Found[]>;
  /** The lists that pg_upgrade --check wrote, by the name of the file. */
  readonly files: ReadonlyMap<string, readonly string[]>;
  /** Message of pg_upgrade --check when it refused; empty if it did not. */
  readonly refusal: readonly string[];
  readonly modes: readonly ModeSection[];
  /** Results of the application's queries and the user's checks on both versions; null if no mode got that far. */
  readonly application: ApplicationSection | null;
  /** Settings of the target's files and command line. */
  readonly ownSettings: ReadonlyMap<string, string>;
  /** Libraries that the target preloads and the new installation lacks. */
  readonly missingLibraries: readonly string[];
}

export interface ObstacleRule extends Pick<UpgradeObstacle, 'code' | 'severity' | 'remedy'> {
  readonly message: string;
  /** The upgrades that it concerns: major versions. */
  readonly when?: (from: number, to: number) => boolean;
  /** A query on the copy of the old cluster with the columns `object` and `sql`. */
  readonly query?: {
    readonly of: 'each database' | 'cluster';
    readonly sql: string;
    /** It is asked on the upgraded server as well, whose answer counts: it depends on the libraries of the installation. */
    readonly again?: true;
  };
  /** The list of pg_upgrade's that has the same. */
  readonly file?: string;
  /** The severity if it depends on what was found. */
  readonly rate?: (facts: UpgradeFacts) => UpgradeObstacle['severity'];
  readonly find?: (facts: UpgradeFacts) => readonly Found[];
}
