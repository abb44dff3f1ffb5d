import { parentPort } from 'node:worker_threads';
import { loadParser } from './load-parser.ts';

/** The thread that parses long texts, so that other sessions need not wait for them. */
parentPort?.on('message', async ({ id, sql }: { id: number; sql: string }) => {
  const stmts = await loadParser()
    .parse(sql)
    .then(
      (tree) => tree.stmts ?? [],
      () => null,
    );
  parentPort?.postMessage({ id, stmts });
});
