import { beforeAll, test } from 'vitest';
import { temporaryDatabase } from '../helpers/database.ts';
import { expectFirstRehearsal } from '../helpers/init.ts';
import { copyProject, PROJECTS } from '../helpers/projects.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

// Those of the tools that are installed first are in their own files.
for (const { id, available, environment } of PROJECTS) {
  const found = available();
  test.skipIf(skipReason(found === true ? null : found))(
    `the command that it shows for ${id} passes a rehearsal, with the configuration that it writes`,
    async () => {
      const { folder, remove } = await copyProject(id);
      try {
        const target = await temporaryDatabase(18);
        await expectFirstRehearsal(folder, async () => environment(target.url));
      } finally {
        await remove();
      }
    },
  );
}
