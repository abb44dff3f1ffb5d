import type { Hazard } from '../../report/model.ts';
import type { Ground } from './ground.ts';

/** One place where a hazard was met. */
export type Finding = Omit<Hazard, 'code' | 'allowed'>;

/** What is known of one hazard, whoever meets it: `safemigrate explain CODE` prints it. */
export interface HazardRecord {
  readonly code: string;
  readonly title: string;
  /** When it is found. */
  readonly condition: string;
  /** What happens in production. */
  readonly effect: string;
  /** The safer way, in general; findings name it in SQL. */
  readonly safer: string;
  readonly find: (ground: Ground) => Finding[];
}
