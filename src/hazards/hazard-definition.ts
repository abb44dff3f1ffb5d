import type { Action, Name } from '../model/hazard-facts.ts';
import type { Hazard, StatementSection } from '../model/report.ts';
import { lockEvidence } from './evidence.ts';
import type { HazardContext, Met } from './hazard-context.ts';
import { weighLock } from './severity.ts';

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
  readonly find: (ground: HazardContext) => Finding[];
}

export type HazardTexts = Omit<HazardRecord, 'find'>;

/** An action on a relation that was there before. */
export interface MetOn<Does extends Action['does']> extends Met<Does> {
  readonly relation: string;
  readonly ground: HazardContext;
}

/** Actions on a relation: all of those have its name in the same place but REFRESH. */
type OnRelation = Extract<Action, { table: unknown } | { view: unknown }>['does'];

const known = new WeakMap<HazardContext, Map<OnRelation, readonly unknown[]>>();

/** The actions of one kind on relations that were there before the command. */
export function metOn<Does extends OnRelation>(ground: HazardContext, does: Does): readonly MetOn<Does>[] {
  const ofGround = known.get(ground) ?? new Map<OnRelation, readonly unknown[]>();
  known.set(ground, ofGround);
  const before = ofGround.get(does);
  if (before) return before as readonly MetOn<Does>[];
  const met = ground.met(does).flatMap((each) => {
    const name = nameOn(each.action);
    const relation = name && ground.resolve(name, each.statement);
    if (relation === null || ground.isReplaced(relation, each.statement)) return [];
    return ground.relation(relation) ? [{ ...each, relation, ground }] : [];
  });
  ofGround.set(does, met);
  return met;
}

function nameOn(action: Action): Name | null {
  return 'table' in action ? action.table : 'view' in action ? action.view : null;
}

export interface Blocking<Does extends OnRelation> extends HazardTexts {
  readonly does: Does;
  readonly when?: (met: MetOn<Does>) => boolean;
  readonly says: (met: MetOn<Does>) => string;
  readonly advises: (met: MetOn<Does>) => string;
  /** It is over in a moment, whatever the size. */
  readonly brief?: true;
}

/** A hazard of one action that keeps others out of its relation for as long as it takes. */
export function blocking<Does extends OnRelation>(hazard: Blocking<Does>): HazardRecord {
  const { does, when = () => true, says, advises, brief, ...words } = hazard;
  return {
    ...words,
    find: (ground) =>
      metOn(ground, does)
        .filter(when)
        .map((met) => lockFinding(ground, met.statement, met.relation, says(met), advises(met), brief)),
  };
}

/** A finding whose weight is that of the lock that the statement's transaction holds on the relation. */
export function lockFinding(
  ground: HazardContext,
  statement: StatementSection,
  relation: string,
  message: string,
  advice: string,
  brief = false,
): Finding {
  const held = ground.held(statement, relation);
  return {
    statement: statement.index,
    relation,
    severity: weighLock(
      ground,
      held ?? { relation, mode: 'ACCESS EXCLUSIVE', heldMs: statement.durationMs },
      !brief,
    ),
    message,
    evidence: lockEvidence(ground, statement, relation),
    advice,
  };
}

/** Advice: a sentence, and the SQL that does it, a statement a line. */
export function sqlAdvice(sentence: string, ...sql: string[]): string {
  return [sentence, ...sql.map((statement) => `${statement.replace(/;\s*$/, '')};`)].join('\n');
}

const LONGEST_SQL = 400;

/** The statement's own text with a change, where it asks for one thing only and is short enough to be repeated. */
export function ownWords(
  { ground, statement }: Pick<MetOn<Action['does']>, 'ground' | 'statement'>,
  change: (sql: string) => string,
): string | undefined {
  const sql = statement.sql.replace(/\s+/g, ' ').replace(/;\s*$/, '').trim();
  const isPlain = ground.actions(statement).length === 1 && sql.length <= LONGEST_SQL && !/--|\/\*/.test(sql);
  return isPlain ? change(sql) : undefined;
}
