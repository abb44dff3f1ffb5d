import type { AmbiguousCall } from '../../model/effect-facts.ts';
import { FIRST_USER_OID, ofExtension, USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { refusalOf } from '../../postgres/session-helpers.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';

/** A function that has another one of its name beside it. */
interface Overload {
  readonly schema: string;
  readonly name: string;
  /** The types of its parameters as one text. */
  readonly arguments: string;
  readonly types: readonly string[];
  /** Number of parameters with a default, which are the last ones. */
  readonly defaults: number;
}

/** A call with NULLs that fits more than one function, and the message of the server. */
interface TriedCall {
  readonly of: Overload;
  /** The NULLs have types. */
  readonly typed: boolean;
  readonly call: string;
  readonly refusal: string;
}

/** Functions and refused calls at one moment. */
export interface Overloads {
  readonly known: ReadonlySet<string>;
  readonly refused: ReadonlySet<string>;
}

// Functions with a variable number of arguments, or of any type, are called with other arguments than NULLs show.
const OVERLOADED = `
select n.nspname as schema, p.proname as name, pg_catalog.oidvectortypes(p.proargtypes) as arguments, p.pronargdefaults as defaults,
  array(select pg_catalog.format_type(u.type, null) from pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) with ordinality as u (type, place) order by u.place) as types
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.oid >= ${FIRST_USER_OID} and p.prokind = 'f' and p.provariadic = 0 and ${USER_SCHEMA} and not ${ofExtension('pg_proc', 'p.oid')}
  and exists (select from pg_catalog.pg_proc o where o.proname = p.proname and o.pronamespace = p.pronamespace and o.oid <> p.oid and o.prokind = 'f')
  and not exists (select from pg_catalog.pg_type t where t.oid = any (p.proargtypes::pg_catalog.oid[]) and t.typtype = 'p')
order by p.oid`;

const SIGNATURES = `
select n.nspname as schema, p.proname as name, pg_catalog.oidvectortypes(p.proargtypes) as arguments
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where p.oid >= ${FIRST_USER_OID} and p.prokind = 'f' and ${USER_SCHEMA}`;

const MOST_CALLS = 200;
const AMBIGUOUS = '42725';

/** Reads which functions there are, and which calls of those with the same name fit several of them. */
export async function readOverloads(session: Session): Promise<Overloads> {
  const known = await session.query<Pick<Overload, 'schema' | 'name' | 'arguments'> & object>(SIGNATURES);
  const refused = await refusedCalls(session, await session.query<Overload & object>(OVERLOADED));
  return { known: new Set(known.map(signature)), refused: new Set(refused.map(({ call }) => call)) };
}

/** Finds calls of functions that there were before the command, and that now fit another one as well. */
export async function ambiguousCalls(session: Session, before: Overloads): Promise<AmbiguousCall[]> {
  const overloads = await session.query<Overload & object>(OVERLOADED);
  const others = overloads.filter((each) => !before.known.has(signature(each)));
  const isNewName = (each: Overload) => others.some((other) => nameOf(other) === nameOf(each));
  if (others.length === 0) return [];
  const known = overloads.filter((each) => before.known.has(signature(each)) && isNewName(each));
  const refused = (await refusedCalls(session, known)).filter(({ call }) => !before.refused.has(call));
  return [...new Set(refused.map((each) => each.of))].flatMap((of): AmbiguousCall[] => {
    const own = refused.filter((each) => each.of === of);
    const first = own.find(({ typed }) => typed) ?? own[0];
    if (!first) return [];
    return [
      {
        function: signature(of),
        others: others.filter((other) => nameOf(other) === nameOf(of)).map(signature),
        call: first.call,
        typed: first.typed,
        error: first.refusal,
      },
    ];
  });
}

const nameOf = ({ schema, name }: Pick<Overload, 'schema' | 'name'>) => displayName(schema, name);
const signature = (each: Pick<Overload, 'schema' | 'name' | 'arguments'>) =>
  `${nameOf(each)}(${each.arguments})`;

/** Prepares the calls of functions, with and without their optional arguments. Nothing of it runs. */
async function refusedCalls(session: Session, overloads: readonly Overload[]): Promise<TriedCall[]> {
  const tried = overloads
    .flatMap(callsOf)
    .slice(0, MOST_CALLS)
    .map(async (each) => ({ ...each, refusal: await refusalOf(session, `SELECT ${each.call}`) }));
  return (await Promise.all(tried)).flatMap(({ refusal, ...call }) =>
    refusal?.sqlstate === AMBIGUOUS ? [{ ...call, refusal: refusal.message }] : [],
  );
}

function callsOf(of: Overload): Omit<TriedCall, 'refusal'>[] {
  const { schema, name, types, defaults } = of;
  const lengths = Array.from({ length: defaults + 1 }, (_, left) => types.length - left);
  return [true, false].flatMap((typed) =>
    lengths.map((length) => {
      const given = types.slice(0, length).map((type) => (typed ? `NULL::${type}` : 'NULL'));
      return { of, typed, call: `${identifier(schema)}.${identifier(name)}(${given.join(', ')})` };
    }),
  );
}
