import { DRIVER_PROGRAMS } from '../helpers/drivers.ts';
import { testDrivers } from './driver-suite.ts';

await testDrivers(DRIVER_PROGRAMS);
