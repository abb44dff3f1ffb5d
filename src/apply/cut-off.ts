import { messageOf } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { openSchemaWatch } from '../schema/schema-watch.ts';
import { type CutOffApply, cutOffApplies } from './journal.ts';

/** What the target of an apply that was killed has now; `unread`: the reason why it was not looked at. */
export type Found = 'as before' | 'as rehearsed' | 'otherwise' | { readonly unread: string };

export interface CutOffOutcome extends CutOffApply {
  /** null while it is at work. */
  readonly schema: Found | null;
}

/** @param settings of the target that was named, which alone is looked at. */
export async function inspectCutOff(settings: ConnectionSettings | undefined): Promise<CutOffOutcome[]> {
  const found = await cutOffApplies();
  const fingerprint = found.some(({ state }) => state !== 'alive') && settings && (await read(settings));
  return found.map((apply) => {
    if (apply.state === 'alive') return { ...apply, schema: null };
    const isNamed = settings && names(settings, apply);
    if (!isNamed || !fingerprint)
      return { ...apply, schema: { unread: 'name its database with --url to have it looked at' } };
    if (typeof fingerprint !== 'string') return { ...apply, schema: fingerprint };
    const { before, rehearsed } = apply.head.fingerprints;
    const schema =
      fingerprint === before ? 'as before' : fingerprint === rehearsed ? 'as rehearsed' : 'otherwise';
    return { ...apply, schema };
  });
}

function names({ hosts, database }: ConnectionSettings, { head: { target } }: CutOffApply): boolean {
  return (
    database === target.database &&
    hosts.some(({ host, port }) => host === target.host && port === target.port)
  );
}

async function read(settings: ConnectionSettings): Promise<string | { unread: string }> {
  const schema = await openSchemaWatch();
  try {
    // A first word that says what is wrong with the connection.
    await (await openSession(settings, { purpose: 'list', readOnly: true })).close();
    await schema.before(settings);
    return await schema.fingerprint();
  } catch (error) {
    return { unread: messageOf(error) };
  } finally {
    await schema.close();
  }
}
