import type { Hazard, StatementSection } from '../model/report.ts';
import type { Action, Name } from '../model/statement-actions.ts';
import { lockEvidence } from './evidence.ts';
import type { HazardContext, StatementAction } from './hazard-context.ts';
import { severityElsewhen, weighLock } from './severity.ts';

/** One place where a hazard was found. */
export type Finding = Omit<Hazard, 'code' | 'allowed'>;

/** The texts of a hazard, which `safemigrate explain CODE` prints, and the function that finds it. */
export interface HazardRecord {
  readonly code: string;
  readonly title: string;
  /** The condition for a finding. */
  readonly condition: string;
  /** The effect in production. */
  readonly effect: string;
  /** The safer way in general; findings give it as SQL. */
  readonly safer: string;
  readonly find: (context: HazardContext) => Finding[];
}

export type HazardTexts = Omit<HazardRecord, 'find'>;

/** An action on a relation that existed before the command. */
export interface RelationAction<Does extends Action['does']> extends StatementAction<Does> {
  readonly relation: string;
  readonly context: HazardContext;
}

/** Actions on one relation: its name is in `table`, or in `view` for REFRESH. */
type OnRelation = Extract<Action, { table: unknown } | { view: unknown }>['does'];

const known = new WeakMap<HazardContext, Map<OnRelation, readonly unknown[]>>();

/** The actions of one kind on relations that existed before the command, in statements that succeeded. */
export function actionsOn<Does extends OnRelation>(
  context: HazardContext,
  does: Does,
): readonly RelationAction<Does>[] {
  const ofContext = known.get(context) ?? new Map<OnRelation, readonly unknown[]>();
  known.set(context, ofContext);
  const before = ofContext.get(does);
  if (before) return before as readonly RelationAction<Does>[];
  const found = context.actionsOf(does).flatMap((each) => {
    const name = nameOn(each.action);
    const relation = name && context.resolve(name, each.statement);
    const isReachable = relation !== null && context.reachable(relation, each.statement) !== undefined;
    return isReachable ? [{ ...each, relation, context }] : [];
  });
  ofContext.set(does, found);
  return found;
}

function nameOn(action: Action): Name | null {
  return 'table' in action ? action.table : 'view' in action ? action.view : null;
}

interface Blocking<Does extends OnRelation> extends HazardTexts {
  readonly does: Does;
  readonly when?: (found: RelationAction<Does>) => boolean;
  readonly messageOf: (found: RelationAction<Does>) => string;
  readonly adviceOf: (found: RelationAction<Does>) => string;
  /** The statement takes only a moment, whatever the size of the relation. */
  readonly momentary?: true;
}

/** A hazard of an action that blocks others on its relation while it runs. */
export function blocking<Does extends OnRelation>(hazard: Blocking<Does>): HazardRecord {
  const { does, when = () => true, messageOf, adviceOf, momentary, ...words } = hazard;
  return {
    ...words,
    find: (context) =>
      actionsOn(context, does)
        .filter(when)
        .map((found) =>
          lockFinding(context, found.statement, found.relation, messageOf(found), adviceOf(found), momentary),
        ),
  };
}

const WITH_ARTICLE = { notice: 'a notice', warning: 'a warning', error: 'an error' } as const;

/** A finding with the severity of the lock that the statement's transaction holds on the relation. */
export function lockFinding(
  context: HazardContext,
  statement: StatementSection,
  relation: string,
  message: string,
  advice: string,
  momentary = false,
): Finding {
  const lock = context.held(statement, relation) ?? {
    relation,
    mode: 'ACCESS EXCLUSIVE' as const,
    heldMs: statement.durationMs,
  };
  const other = severityElsewhen(context, lock, !momentary);
  const near = other === undefined ? '' : `; near a limit: another run may find ${WITH_ARTICLE[other]}`;
  return {
    statement: statement.index,
    relation,
    severity: weighLock(context, lock, !momentary),
    message,
    evidence: `${lockEvidence(context, statement, relation)}${near}`,
    advice,
  };
}

/** Advice: a sentence, and SQL with one statement a line. */
export function sqlAdvice(sentence: string, ...sql: string[]): string {
  return [sentence, ...sql.map((statement) => `${statement.replace(/;\s*$/, '')};`)].join('\n');
}
