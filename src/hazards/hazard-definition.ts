import type { Hazard, StatementSection } from '../model/report.ts';
import { lockEvidence, relationEvidence } from './evidence.ts';
import type { HazardContext, OnRelation, RelationAction } from './hazard-context.ts';
import { milder, severityElsewhen, weighBreakage, weighLock } from './severity.ts';

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
      context
        .actionsOn(does)
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

/** A finding of an instant change, after which code that uses the relation may do something else. */
export function changeFinding(
  context: HazardContext,
  statement: number | null,
  relation: string,
  message: string,
  advice: string,
): Finding {
  return {
    statement,
    relation,
    severity: milder(weighBreakage(context, relation)),
    message,
    evidence: relationEvidence(context, relation),
    advice,
  };
}
