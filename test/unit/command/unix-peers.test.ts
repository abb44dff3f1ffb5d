import { expect, test } from 'vitest';
import { parseUnixPeers } from '../../../src/command/sandbox/unix-sockets.ts';

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
