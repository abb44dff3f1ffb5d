/** A place in a run: the requests that come to the server in this order, the last of which is disturbed. */
export type Place = readonly RegExp[];

const FOLLOWING = /^ALTER SUBSCRIPTION .* ENABLE/;
const CLOSING = /^ALTER DATABASE "app" ALLOW_CONNECTIONS false/;
const OPENING = /^ALTER DATABASE "app" ALLOW_CONNECTIONS true/;
const COMMIT = /^COMMIT/;

/** A place in each step of an online swap, in their order. Only after the last one it is done. */
export const PLACES = {
  published: [/^CREATE PUBLICATION/, COMMIT],
  slot: [/pg_create_logical_replication_slot/],
  'closed for the clone': [CLOSING, COMMIT],
  cloning: [/^CREATE DATABASE/],
  'cloned and opened': [/^CREATE DATABASE/, OPENING, COMMIT],
  migrating: [/^CREATE DATABASE/, /^ALTER TABLE orders/],
  'about to follow': [/pg_replication_slot_advance/],
  following: [FOLLOWING],
  'catching up': [FOLLOWING, /pg_logical_emit_message/],
  comparing: [FOLLOWING, /md5\(string_agg/],
  'closed for the cut-over': [FOLLOWING, CLOSING, COMMIT],
  draining: [FOLLOWING, CLOSING, /pg_logical_emit_message/],
  'handed over': [/^DROP SUBSCRIPTION/, COMMIT],
  'closed both': [/^DROP SUBSCRIPTION/, /^ALTER DATABASE .*_rehearsal_.* ALLOW_CONNECTIONS false/, COMMIT],
  renaming: [/^ALTER DATABASE "app" RENAME/],
  renamed: [/^ALTER DATABASE "app" RENAME/, COMMIT],
} as const satisfies Record<string, Place>;

export type PlaceName = keyof typeof PLACES;
export const PLACE_NAMES = Object.keys(PLACES) as PlaceName[];

/** Places at which the target is closed, once the server has answered. */
export const CLOSED: readonly PlaceName[] = [
  ...(['closed for the clone', 'cloning', 'closed for the cut-over', 'draining'] as const),
  ...(['handed over', 'closed both', 'renaming'] as const),
];
