import type * as z from 'zod/mini';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';

/**
 * One hosted service that makes full-size clones. service-method.ts makes a clone method of it: it waits, marks, judges
 * and removes in the same way for all. A service names the calls of its command line. A new one is a file beside this one, a row in
 * service-list.ts, its test, and its section in docs/services.md.
 */
export interface CloneService<S extends SourceFacts = SourceFacts> {
  readonly title: string;
  /** Its command line, which acts with the user's login. */
  readonly program: string;
  /** The command by which the user logs in. */
  readonly login: string;
  /** The parts of SAFEMIGRATE_CLONE_OF, as `project[/branch]`; optional ones in brackets. */
  readonly sourceForm: string;
  readonly strategy: 'copy-on-write' | 'restore' | 'backup';
  /** An estimate until the clone can be used. */
  readonly readyMs: number;
  /** Pages come from a remote storage at their first use, so that first reads are slow. */
  readonly readsLazily: boolean;
  /** Cost of a clone, in a phrase. */
  readonly cost: string;
  readonly billing: ServiceBilling;
  /** Rights that the login needs, as the service names them. */
  readonly rights: string;
  readonly signs: ServiceSigns;
  /** Finds SAFEMIGRATE_CLONE_OF in the host and the user of the target; null if they do not contain it. */
  sourceIn(match: RegExpMatchArray, user: string): string | null;
  /** Reads the source. Throws an error if it does not exist, or the login may not see it. */
  inspect(cli: ServiceCli, source: Source): Promise<S>;
  /** Asks for the clone. It need not be ready afterwards. */
  create(cli: ServiceCli, order: CloneOrder, facts: S): Promise<void>;
  /** Lists everything of the kind of a clone, also of others. */
  list(cli: ServiceCli, source: Source): Promise<ServiceClone[]>;
  /** Makes the second part of a clone that list() calls incomplete. */
  complete?(cli: ServiceCli, order: CloneOrder, facts: S): Promise<void>;
  /** Returns the address of the clone. Parts that are left out are the target's. */
  address(cli: ServiceCli, clone: ServiceClone, order: CloneOrder): Promise<CloneAddress>;
  destroy(cli: ServiceCli, clone: ServiceClone, source: Source): Promise<void>;
  /** The calls that upgrade a clone to another major version; left out if safemigrate does not have the service do that. */
  readonly upgrade?: ServiceUpgrade<S>;
}

/** The service's own upgrade of a clone, in place. list() then tells its release. */
export interface ServiceUpgrade<S extends SourceFacts = SourceFacts> {
  /** Lists the releases to which the service would upgrade the source, as `18.1`. */
  offered(cli: ServiceCli, source: Source, facts: S): Promise<string[]>;
  /** Orders it. It need not have begun afterwards. @returns differences from an upgrade of the source. */
  order(cli: ServiceCli, clone: ServiceClone, release: string, from: UpgradeSource<S>): Promise<string[]>;
  /** Reads the service's messages about the clone since a time, the oldest first, and the end of its log of the upgrade. */
  explain(cli: ServiceCli, clone: ServiceClone, source: Source, since: Date): Promise<UpgradeMessages>;
}

export interface UpgradeSource<S extends SourceFacts = SourceFacts> {
  readonly source: Source;
  readonly facts: S;
}

export interface UpgradeMessages {
  readonly events: readonly string[];
  /** Lines of the log of an upgrade, if the service has one. */
  readonly log: readonly string[];
}

/** Units by which the service bills a clone, as `hours of the class`; left out if it does not bill one. */
export interface ServiceBilling {
  readonly machine?: string;
  readonly storage?: string;
  /** It bills the size of the databases, not of an allocated disk. */
  readonly byData?: true;
}

/** Signs of a server of the service: its host, or names that only such servers have. */
export interface ServiceSigns {
  /** Left out if its hosts have no name of it. */
  readonly host?: RegExp;
  readonly role?: string;
  readonly procedure?: string;
}

/** The parts of SAFEMIGRATE_CLONE_OF; a part that was left out is empty. */
export type Source = readonly string[];

export interface SourceFacts {
  /** Class of its machine; null if the service has none or does not tell. */
  readonly instance: string | null;
  /** Storage that a clone would have allocated; left out if the service allocates none or does not tell. */
  readonly storageBytes?: number | undefined;
  /** Time of the data that a clone made now would have, in ISO 8601; null if that is not known beforehand. */
  readonly asOf: string | null;
  /** Tells for this source whether its clones read lazily; left out if all clones of the service are alike. */
  readonly readsLazily?: boolean;
}

export interface CloneOrder {
  readonly source: Source;
  /** The mark (service-name.ts), which is its name at the service too. */
  readonly name: string;
  /** In ISO 8601, without fractions of a second. */
  readonly expiresAt: string;
  readonly database: string;
  readonly user: string;
}

/** Something at the service that may be a clone of ours. */
export interface ServiceClone {
  /** Unique at the service. */
  readonly id: string;
  readonly name: string;
  /** `incomplete`: it waits for complete(). */
  readonly state: 'creating' | 'incomplete' | 'ready' | 'failed' | 'deleting';
  /** Time of its data, in ISO 8601; null if the service does not tell it for this clone. */
  readonly asOf: string | null;
  /** Reason why it cannot be ours, even with our name; null if there is none. */
  readonly doubt: string | null;
  readonly host?: string;
  readonly port?: number;
  /** Version of its server, as `18.1`; left out for services that upgrade no clone. */
  readonly release?: string | undefined;
  /** An upgrade was ordered, and is not done yet. */
  readonly isUpgradePending?: boolean;
}

export interface CloneAddress {
  /** Arguments with which the program forwards a port of this machine to the clone, for as long as it runs. */
  readonly forward?: readonly string[];
  /** A whole URL, or the parts. */
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  readonly user?: string;
  readonly password?: string;
  readonly database?: string;
  readonly sslmode?: ConnectionSettings['sslmode'];
}

export interface CallInput {
  /** Its standard input, which is empty otherwise. */
  readonly input?: string;
  /** Variables for what must not be in a list of processes. */
  readonly env?: Readonly<Record<string, string>>;
}

/** The service's command line. Both calls throw SafemigrateError `CLONE` if it fails. */
export interface ServiceCli {
  /** Runs it, and reads its output as JSON. Fields that the schema does not name are left out. */
  json<T>(args: readonly string[], schema: z.ZodMiniType<T>, given?: CallInput): Promise<T>;
  text(args: readonly string[], given?: CallInput): Promise<string>;
}
