import { cluster } from '../../src/clone/cluster.ts';
import type { Clone, Possible } from '../../src/clone/method.ts';
import { inspectTarget } from '../../src/database/inspect.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { type Cloning, type CloningOptions, withCloning } from './cloning.ts';

export interface ClusterCloning extends Cloning {
  readonly assessment: Possible;
  create(): Promise<Clone>;
}

/** As withCloning, for a method that is asked directly. @param options.source the URL of a standby; options.fail for a clone that is lost. */
export async function withClusterCloning<T>(
  url: string,
  options: CloningOptions & { readonly source?: string; readonly fail?: () => void },
  use: (cloning: ClusterCloning) => Promise<T>,
): Promise<T> {
  return withCloning(url, options, async (cloning) => {
    const { source } = options;
    const standby =
      source === undefined
        ? {}
        : {
            source: await inspectTarget(parseSettings(source, readEnvironment({}, '/')), '--clone-from', {
              standbyToo: true,
            }),
          };
    const { fail = cloning.context.fail } = options;
    const context = { ...cloning.context, ...standby, fail };
    const assessment = await cluster.assess(context);
    if (!assessment.possible) throw new Error(`${assessment.reason} (${assessment.enable})`);
    return use({
      ...cloning,
      context,
      assessment,
      create: () => cluster.create(context, assessment, cloning.scope),
    });
  });
}

/** Runs one query in the clone, as the target's user. */
export async function queryClone<Row extends object>(clone: Clone, sql: string): Promise<Row[]> {
  const session = await openSession(clone.connect, { purpose: 'test' });
  try {
    await session.query('SET search_path = public');
    return await session.query<Row>(sql);
  } finally {
    await session.close();
  }
}
