import { messageOf } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { SchemaWatch } from '../schema/schema-watch.ts';
import { type InterruptedApply, interruptedApplies } from './journal.ts';

/** The schema that the target of a killed apply has now; `unread`: the reason why it was not read. */
export type SchemaAfterKill = 'as before' | 'as rehearsed' | 'otherwise' | { readonly unread: string };

export interface InspectedApply extends InterruptedApply {
  /** null while the apply runs. */
  readonly schema: SchemaAfterKill | null;
}

/** Inspects the killed applies. @param settings of the target that the user named: no other target is read. */
export async function inspectInterruptedApplies(
  settings: ConnectionSettings | undefined,
): Promise<InspectedApply[]> {
  const applies = await interruptedApplies();
  const fingerprint = applies.some(({ state }) => state !== 'alive') && settings && (await read(settings));
  return applies.map((apply) => {
    if (apply.state === 'alive') return { ...apply, schema: null };
    const isNamed = settings && names(settings, apply);
    if (!isNamed || !fingerprint)
      return { ...apply, schema: { unread: 'name its database with --url to have it read' } };
    if (typeof fingerprint !== 'string') return { ...apply, schema: fingerprint };
    const { before, rehearsed } = apply.head.fingerprints;
    const schema =
      fingerprint === before ? 'as before' : fingerprint === rehearsed ? 'as rehearsed' : 'otherwise';
    return { ...apply, schema };
  });
}

function names({ hosts, database }: ConnectionSettings, { head: { target } }: InterruptedApply): boolean {
  return (
    database === target.database &&
    hosts.some(({ host, port }) => host === target.host && port === target.port)
  );
}

async function read(settings: ConnectionSettings): Promise<string | { unread: string }> {
  const schema = new SchemaWatch();
  try {
    // The error of a plain session says best what is wrong with the connection.
    await (await openSession(settings, { purpose: 'list', readOnly: true })).close();
    await schema.before(settings);
    return await schema.fingerprint();
  } catch (error) {
    return { unread: messageOf(error) };
  } finally {
    await schema.close();
  }
}
