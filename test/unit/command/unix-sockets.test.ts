import { expect, test } from 'vitest';
import { parseUnixSockets } from '../../../src/command/sandbox/unix-sockets.ts';

test('listening sockets with a path are found, connected, nameless and abstract ones are not', () => {
  const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000029b8a9d2: 00000002 00000000 00010000 0001 01 3464652 /tmp/.s.PGSQL.5418
0000000044722ac5: 00000003 00000000 00000000 0001 03 3582102 /tmp/.s.PGSQL.5418
00000000cf1a0672: 00000002 00000000 00010000 0001 01     12 /tmp/with a space/.s.PGSQL.1
00000000f15f2143: 00000003 00000000 00000000 0001 03 3581966
00000000f15f2144: 00000002 00000000 00010000 0001 01 3581967 @/abstract
`;
  expect(parseUnixSockets(table)).toEqual([
    { path: '/tmp/.s.PGSQL.5418', inode: '3464652' },
    { path: '/tmp/with a space/.s.PGSQL.1', inode: '12' },
  ]);
});
