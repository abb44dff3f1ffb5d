import type { TargetSection } from '../model/report.ts';
import { parseMark } from '../ownership/mark.ts';
import { isMarkerLimit } from '../ownership/run-id.ts';
import type { Observed } from '../proxy/observed.ts';
import { type SharedCatalogues, type SharedObject, XID_EPOCH } from './shared-objects.ts';

const OTHER: SharedObject = { kind: 'other', database: null, file: null };

export interface SharedChange {
  /** `role app: rolcreatedb false → true`, `role app created` */
  readonly what: string;
  readonly object: SharedObject;
  readonly verb: 'created' | 'dropped' | 'replaced' | 'altered';
  /** How it can be made without a session that the server counts: in a configuration file, or by a session for replication. */
  readonly uncounted: 'file' | 'slot' | 'dropped slot' | null;
  /** The run of safemigrate that marked the database, or took its mark off again; null if none did. */
  readonly markedBy: string | null;
  /** The xmin of the row that was written since; null if the row is gone or hidden, or did not change. */
  readonly xmin: number | null;
}

/** Lists the differences. */
export function compareShared(a: SharedCatalogues, b: SharedCatalogues): SharedChange[] {
  const found: SharedChange[] = [];
  for (const name of a.objects.keys()) {
    if (b.objects.has(name)) continue;
    const object = a.natures.get(name) ?? OTHER;
    const uncounted =
      object.kind === 'slot' && !OF_A_SUBSCRIPTION.test(name) ? 'dropped slot' : uncountedWay(object);
    found.push({ what: `${name} dropped`, object, verb: 'dropped', markedBy: null, xmin: null, uncounted });
  }
  for (const [name, now] of b.objects) {
    const then = a.objects.get(name);
    const object = b.natures.get(name) ?? OTHER;
    const wasReplaced = object.kind === 'database' && then !== undefined && then.oid !== now.oid;
    const verb = wasReplaced ? 'replaced' : then ? 'altered' : 'created';
    const made = [{ what: `${name} ${wasReplaced ? 'dropped and created again' : 'created'}`, property: '' }];
    const changes = then && !wasReplaced ? differences(name, object, then, now) : made;
    const markedBy = then && object.kind === 'database' ? (markingRun(then) ?? markingRun(now)) : null;
    for (const { what, property } of changes) {
      const rows = b.rows.get(name) ?? {};
      const xmin = rows[property] ?? (OF_ITS_OWN.has(property) ? undefined : rows['']);
      const since = xmin !== undefined && isSince(xmin, a.nextXid) ? xmin : null;
      found.push({ what, object, verb, uncounted: uncountedWay(object), markedBy, xmin: since });
    }
  }
  return found.sort((one, other) => (one.what < other.what ? -1 : 1));
}

function markingRun(properties: Readonly<Record<string, string | null>>): string | null {
  const mark = parseMark(properties.comment ?? null);
  if (typeof mark !== 'string') return `run ${mark.run}`;
  return isMarkerLimit(Number(properties['connection limit'])) ? 'another run' : null;
}

function uncountedWay({ kind }: SharedObject): SharedChange['uncounted'] {
  if (kind === 'setting') return 'file';
  return kind === 'slot' ? 'slot' : null;
}

/** A subscription makes and drops a slot for each table that it copies. */
const OF_A_SUBSCRIPTION = /^replication slot pg_\d+_sync_\d+_\d+$/;

/** Properties that have a row of their own, beside the object's. */
const OF_ITS_OWN = new Set(['settings', 'comment']);

/** Compares two ids: the later one is less than half the range ahead. */
function isSince(xmin: number, nextXid: number): boolean {
  return (xmin - nextXid + XID_EPOCH) % XID_EPOCH < XID_EPOCH / 2;
}

function differences(
  name: string,
  { kind }: SharedObject,
  then: Readonly<Record<string, string | null>>,
  now: Readonly<Record<string, string | null>>,
): { what: string; property: string }[] {
  // A property that only one of the two readings could see proves nothing.
  const differing = Object.keys(now).filter((each) => each in then && then[each] !== now[each]);
  const visible = differing.filter((each) => each !== 'written');
  if (differing.length === 0) return [];
  if (kind === 'dependencies') return [{ what: `${name} changed`, property: '' }];
  if (visible.length === 0) return [{ what: `${name}: password changed, or set again`, property: '' }];
  return visible.map((property) => ({
    what: `${name}: ${property} ${then[property] ?? 'none'} → ${now[property] ?? 'none'}`,
    property,
  }));
}

/** The author of a change, and what shows that. */
export type Author = Omit<TargetSection['changes'][number], 'what'>;

/** The ids of the transactions that the proxy saw, and what they prove. */
export class OwnTransactions {
  readonly #ids = new Set<number>();

  /** Learns the ids from the locks that are read after each statement. To be given every event of the proxy. */
  readonly observe = (event: Observed): void => {
    if (event.type !== 'reading') return;
    for (const id of event.reading.xids) this.#ids.add(id);
  };

  /**
   * Says who made a change to a catalogue that all databases of the server share. An id proves that the command made it. That
   * the command did not make it, no id can prove: it may have connected past the proxy, and savepoints that have ended are not
   * among the ids.
   */
  authorOf({ xmin }: Pick<SharedChange, 'xmin'>): Author {
    if (xmin !== null && this.#ids.has(xmin))
      return { madeBy: 'command', evidence: `a transaction of the command wrote it (${xmin})` };
    return {
      madeBy: 'unknown',
      evidence:
        xmin === null
          ? 'it changed while the command ran, and the transaction that changed it cannot be read'
          : `it changed while the command ran, in a transaction (${xmin}) that was not seen to be the command's`,
    };
  }
}
