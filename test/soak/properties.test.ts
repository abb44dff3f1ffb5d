import { afterAll } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { tried } from '../helpers/properties.ts';
// Their tests run here with other cases in each run, and more of them (vitest.soak.ts).
import '../unit/postgres/connection-properties.test.ts';
import '../unit/postgres/sql/sql-properties.test.ts';
import '../unit/proxy/session-properties.test.ts';

afterAll(() => recordFigures('random cases of each property', tried));
