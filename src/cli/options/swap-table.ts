import { SWAP_DEFAULTS, type SwapSettings } from '../../swap/swap-options.ts';
import { declareOptions } from './option-spec.ts';
import { AGE, listOf, SWITCH, TEXT } from './value-types.ts';

const SWAP_ONLY = { group: 'Swap', modes: ['swap'] } as const;

/** How the migrated clone takes the target's place. */
export const SWAP_TABLE = declareOptions<SwapSettings>(SWAP_DEFAULTS, {
  pgbouncer: {
    ...SWAP_ONLY,
    flag: '--pgbouncer <url>',
    summary: 'console of a PgBouncer whose clients wait during the swap; repeatable',
    type: listOf(TEXT),
  },
  verify: {
    ...SWAP_ONLY,
    flag: '--verify <sql or command>',
    summary: 'must accept the migrated clone before the swap: SQL whose rows begin with true, or a command',
    type: TEXT,
    notInFile: true,
  },
  keepOriginalMs: {
    ...SWAP_ONLY,
    flag: '--keep-original <duration>',
    summary: 'how long to keep the original; after that `clean --originals` drops it',
    type: AGE,
  },
  allowStandbys: {
    ...SWAP_ONLY,
    flag: '--allow-standbys',
    summary: 'swap although standbys are attached: they have no readers, or are restarted afterwards',
    type: SWITCH,
    notInFile: true,
  },
});
