import { expect, test } from 'vitest';
import { parseUnixPeers, parseUnixSockets } from '../../../../src/command/sandbox/unix-sockets.ts';

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

test('each end of a Unix socket gets the inode of the other, and the path that it connected to', () => {
  const text = `u_str ESTAB 0      0                  * 4786760            * 0
u_str ESTAB 0      0                  * 100            * 101
u_str ESTAB 0      0      /run/a folder/.s.PGSQL.5432 101            * 100
u_dgr UNCONN 0     0      /dev/log 7            * 0
`;
  const peers = parseUnixPeers(text);
  expect(peers.get('100')).toEqual({ inode: '101', path: '/run/a folder/.s.PGSQL.5432' });
  expect(peers.get('101')).toEqual({ inode: '100', path: null });
});
