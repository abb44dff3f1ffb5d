import { bare, displayName, lastPart } from '../../postgres/sql/quote.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { requestsAs } from './anonymous-access.ts';
import { isOfFunction, statementOfFunction } from './changed-functions.ts';
import { ofKind } from './redefined.ts';
import { gained } from './widened-access.ts';

/** Finds functions that more roles may call than before, or that do more for them with the rights of their owner. */
export function functionsOpened(context: HazardContext): Finding[] {
  return [...runsAsOwner(context), ...calledByAll(context), ...calledWithoutLogin(context)];
}

const WRITES = /that writes/;

/** Functions with the rights of their owner that every role may call. */
function runsAsOwner(context: HazardContext): Finding[] {
  return ofKind(context, 'open function').flatMap(({ relation, name, before, after }): Finding[] => {
    const callable = `${relation}(${name})`;
    const isMade = context.facts.schema?.changes.some(({ object }) =>
      isOfFunction({ relation, name }, object),
    );
    // A role may have lost a privilege that the function has.
    const more = gained(before, after).filter((each) => isMade || !WRITES.test(each));
    if (more.length === 0) return [];
    const isUnpathed = more.some((each) => !WRITES.test(each));
    return [
      {
        statement: statementOfFunction(context, callable),
        relation: null,
        severity: 'warning',
        message: `every role may call ${callable}, which ${isUnpathed ? 'runs' : 'writes'} with the rights of its owner${isUnpathed ? ' and the search_path of the caller' : ''}`,
        evidence: [
          `it is SECURITY DEFINER${isUnpathed ? ' without SET search_path' : ''}`,
          ...(more.some((each) => WRITES.test(each))
            ? ['some role that logs in may not write the same itself']
            : []),
        ].join(', and '),
        advice: sqlAdvice(
          'In the same transaction:',
          ...(isUnpathed ? [`ALTER FUNCTION ${callable} SET search_path = pg_catalog, pg_temp`] : []),
          `REVOKE EXECUTE ON FUNCTION ${callable} FROM PUBLIC`,
        ),
      },
    ];
  });
}

/** Functions that PUBLIC may call again: a REVOKE ends with the function, and CREATE FUNCTION grants EXECUTE to PUBLIC. */
function calledByAll(context: HazardContext): Finding[] {
  const told = new Set(ofKind(context, 'open function').map(({ relation, name }) => `${relation}(${name})`));
  return ofKind(context, 'called by all')
    .filter(({ before }) => before === '')
    .flatMap(({ relation, after }) => (after ?? '').split('\n').map((each) => ({ relation, each })))
    .flatMap(({ relation, each }): Finding[] => {
      const isDefiner = each.endsWith(DEFINER);
      const callable = `${relation}(${isDefiner ? each.slice(0, -DEFINER.length).trimEnd() : each})`;
      if (told.has(callable)) return [];
      return [
        {
          statement: statementOfFunction(context, callable),
          relation: null,
          severity: isDefiner ? 'warning' : 'notice',
          message: `every role may call ${callable}, which runs with the rights of its ${isDefiner ? 'owner' : 'caller'}: EXECUTE was revoked from PUBLIC before the command`,
          evidence: 'pg_proc.proacl before and after the command',
          advice: sqlAdvice(
            'In the same transaction, with a GRANT to the roles that call it:',
            `REVOKE EXECUTE ON ROUTINE ${callable} FROM PUBLIC`,
          ),
        },
      ];
    });
}

const DEFINER = 'SECURITY DEFINER';

/** Functions that the command makes, with the rights of their owner; one that a GRANT names is meant for such requests. */
function calledWithoutLogin(context: HazardContext): Finding[] {
  const told = new Set(
    (['open function', 'called by all', 'rights'] as const).flatMap((kind) =>
      ofKind(context, kind).map(({ relation }) => relation),
    ),
  );
  return ofKind(context, 'called without a login')
    .filter(({ relation, before }) => before === null && !told.has(relation))
    .filter(({ relation }) => !isGranted(context, bare(lastPart(relation))))
    .flatMap(({ relation, name: role, after }) =>
      (after ?? '').split('\n').map((types) => ({ role, callable: `${relation}(${types})` })),
    )
    .map((each) => ({ ...each, statement: statementOfFunction(context, each.callable) }))
    .filter(({ statement }) => statement !== null)
    .map(({ role, callable, statement }) => ({
      statement,
      relation: null,
      severity: 'notice',
      message: `${requestsAs(role)} may call ${callable}, which runs with the rights of its owner`,
      evidence:
        'it is SECURITY DEFINER; CREATE FUNCTION grants EXECUTE to PUBLIC, or default privileges grant it',
      advice: sqlAdvice(
        'If it is not for such requests, in the same transaction, with a GRANT to the roles that call it:',
        `REVOKE EXECUTE ON FUNCTION ${callable} FROM PUBLIC, ${displayName(role)}`,
      ),
    }));
}

function isGranted({ facts }: HazardContext, name: string): boolean {
  return facts.statements.some(
    ({ tag, error, sql }) => tag === 'GRANT' && error === null && isNamed(sql, name),
  );
}
