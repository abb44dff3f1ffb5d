import { measured } from '../../measured.ts';
import type { EffectFacts } from '../../model/effect-facts.ts';
import type { Caveat, StatementSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import type { Retyped } from '../../schema/type-changes.ts';
import { type ParsedStatements, readAlreadyThere } from './already-there.ts';
import { isTriedByColumns, readColumnTrials } from './column-trials.ts';
import type { MayRun } from './filtered-writes.ts';
import { readIdleRevokes } from './idle-revokes.ts';
import { failedByNulls, readNullRows } from './null-rows.ts';

/** Facts that are read because a statement of the command asks for them. */
export type AskedEffects = Pick<EffectFacts, 'alreadyThere' | 'idleRevokes' | 'columnTrials' | 'nullRows'>;

/** Facts that the readers have beside the statements. */
interface AskedContext {
  readonly searchPath: readonly string[];
  readonly retyped: readonly Retyped[];
  /** Reads which statements may run once more. */
  readonly readMayRun: (session: Session) => Promise<MayRun>;
}

interface AskedReader {
  isAsked(sent: ParsedStatements, statement: StatementSection): boolean;
  read(session: Session, sent: ParsedStatements, context: AskedContext): Promise<Partial<AskedEffects>>;
}

const hasAction =
  (isMeant: (action: object & { readonly does: string }) => boolean): AskedReader['isAsked'] =>
  ({ parsed }, { index }) =>
    parsed.get(index)?.actions.some(isMeant) === true;

const READERS: readonly AskedReader[] = [
  {
    isAsked: hasAction((action) => 'ifNotExists' in action && action.ifNotExists === true),
    read: async (session, sent, { searchPath }) => ({
      alreadyThere: await readAlreadyThere(session, sent, searchPath),
    }),
  },
  {
    isAsked: hasAction(({ does }) => does === 'revoke'),
    read: async (session, sent, { searchPath }) => ({
      idleRevokes: await readIdleRevokes(session, sent, searchPath),
    }),
  },
  {
    isAsked: isTriedByColumns,
    read: async (session, sent, { readMayRun, ...context }) => {
      const mayRun = await readMayRun(session);
      return { columnTrials: await readColumnTrials(session, { ...sent, ...context, mayRun }) };
    },
  },
  {
    isAsked: failedByNulls,
    read: async (session, sent) => ({ nullRows: await readNullRows(session, sent) }),
  },
];

/** Reads, after the command, what its statements ask for. */
export async function readAskedEffects(
  open: <T>(use: (session: Session) => Promise<T>) => Promise<T>,
  sent: ParsedStatements,
  context: AskedContext,
  caveats: Caveat[],
): Promise<Partial<AskedEffects>> {
  const asked = READERS.filter(({ isAsked }) =>
    sent.statements.some((statement) => isAsked(sent, statement)),
  );
  let effects: Partial<AskedEffects> = {};
  for (const { read } of asked) {
    const more = await measured(caveats, 'hazards', () => open((session) => read(session, sent, context)));
    effects = { ...effects, ...more };
  }
  return effects;
}
