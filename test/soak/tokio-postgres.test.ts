import { RUST_PROGRAM } from '../helpers/drivers.ts';
import { testDrivers } from '../tools/driver-suite.ts';

await testDrivers([RUST_PROGRAM]);
