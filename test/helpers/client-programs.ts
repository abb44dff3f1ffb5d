import { findClientPrograms, type WantedPrograms } from '../../src/local-server/client-programs.ts';
import { skipReason } from './requirements.ts';

/** For `describe.skipIf(...)`: these programs, for servers of 15 and older, do not come with npm. */
export async function withoutClientPrograms(
  ...programs: WantedPrograms['programs']
): Promise<string | false> {
  const found = await findClientPrograms({ programs, atLeast: 15, atMost: 16 });
  return skipReason('reason' in found ? found.reason : null);
}
