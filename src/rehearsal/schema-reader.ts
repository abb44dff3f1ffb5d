import { openSchemaWatch, type SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { RunPlan } from './plan.ts';

/** Opens what reads schemas; its thread loads while the server is inspected. */
export function openSchemaReader(scope: Scope, { audit }: RunPlan): Promise<SchemaWatch> {
  return scope.own(
    'schema reader',
    () => openSchemaWatch(audit),
    async (schema) => schema?.close(),
  );
}
