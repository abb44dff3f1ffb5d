import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { SERVICE_IDS, serviceNamed } from '../../../src/clone/services/service-list.ts';

test.each(SERVICE_IDS)('%s has a recipe, and a test of all that a service must stand', async (id) => {
  expect(await serviceNamed(id)).toMatchObject({ id, program: expect.any(String) });
  expect(existsSync(new URL(`../../services/${id}.test.ts`, import.meta.url))).toBe(true);
});

test('another way to clone is no service', async () => {
  expect(await serviceNamed('cluster')).toBeUndefined();
  expect(await serviceNamed('auto')).toBeUndefined();
});
