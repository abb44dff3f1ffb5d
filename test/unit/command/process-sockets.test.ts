import { describe, expect, test } from 'vitest';
import { parseLsof, parseSocketTables } from '../../../src/command/process-sockets.ts';

describe('reads the sockets of a process', () => {
  test('from the tables of Linux, IPv4 and IPv6 and one in the other', () => {
    const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:9C40 0100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20 4 30 10 -1
   1: 0000000000000000FFFF00000100007F:9C41 0000000000000000FFFF00000100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: 00000000000000000000000001000000:9C42 00000000000000000000000001000000:1538 01 00000000:00000000 00:00000000 00000000     0        0 4713 1
   3: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000    26        0 4714 1 0 100 0 0 10 0
`;
    const [v4, v6] = ['127.0.0.1', '::1'];
    const listed = { peerPort: 5432, state: 'established', uid: 0 };
    expect(parseSocketTables(table)).toEqual([
      { ...listed, address: v4, port: 40000, peerAddress: v4, inode: '4711' },
      { ...listed, address: v4, port: 40001, peerAddress: v4, inode: '4712' },
      { ...listed, address: v6, port: 40002, peerAddress: v6, inode: '4713' },
      {
        address: v4,
        port: 5432,
        peerAddress: '0.0.0.0',
        peerPort: 0,
        state: 'listening',
        uid: 26,
        inode: '4714',
      },
    ]);
  });

  test('from lsof, and only of connections', () => {
    const output =
      'p12\nf5\nn127.0.0.1:50000->127.0.0.1:5432\nf6\nn*:8080\np13\nf7\nn[::1]:50001->[::1]:5432\n';
    expect(parseLsof(output)).toEqual([
      { pid: 12, address: '127.0.0.1', port: 50000, peerPort: 5432 },
      { pid: 13, address: '::1', port: 50001, peerPort: 5432 },
    ]);
  });
});
