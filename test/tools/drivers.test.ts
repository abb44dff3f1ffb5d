import { DRIVER_PROGRAMS } from '../helpers/drivers.ts';
import { inThisShare } from '../helpers/share.ts';
import { testDrivers } from './driver-suite.ts';

await testDrivers(inThisShare(DRIVER_PROGRAMS, ({ language }) => language));
