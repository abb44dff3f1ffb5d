import { keptStatements, type Recording } from './kept-statements.ts';
import { SessionSettings } from './session-settings.ts';
import { unitsOf } from './units.ts';
import type { ScriptPart } from './write-script.ts';

export interface VerbatimScript {
  readonly parts: readonly ScriptPart[];
  readonly statements: number;
  readonly transactions: number;
}

/**
 * Writes what the command sent as a script of one session: its transactions, and what the migration tool records about itself. Empty if
 * the command sent nothing that leaves anything.
 * @throws Error in words for the user if that is not possible
 */
export async function writeVerbatim(recording: Recording): Promise<VerbatimScript> {
  const { facts } = recording.context;
  const kept = await keptStatements(recording, [], 'verbatim');
  const starts = new Set(kept.map(({ section }) => recording.sessions.get(section.session)));
  refuseSeveral('the database', new Set([...starts].map((start) => start?.database)));
  refuseSeveral('the role', new Set([...starts].map((start) => start?.user)));
  const sessions = new SessionSettings(recording.sessions, () => true);
  const parts: ScriptPart[] = [];
  const units = unitsOf(kept, facts.statements);
  for (const unit of units) {
    const [{ section, begin }] = unit;
    const { reset, settings } = sessions.enter(section.session);
    const entering = [...reset, ...settings.map(({ sql }) => sql)];
    if (entering.length > 0) parts.push({ comment: null, statements: entering, begin: null });
    const isBlock = section.explicit || unit.length > 1;
    parts.push({
      comment: null,
      statements: unit.map(({ subject }) => subject.sql),
      begin: isBlock ? (begin ?? 'BEGIN') : null,
    });
    for (const each of unit) sessions.note(each);
  }
  return { parts, statements: kept.length, transactions: units.length };
}

function refuseSeveral(what: string, values: ReadonlySet<string | undefined>): void {
  if (values.size > 1)
    throw new Error(
      `the sessions of the command differ in ${what} (${[...values].join(', ')}), and a script is one session`,
    );
}
