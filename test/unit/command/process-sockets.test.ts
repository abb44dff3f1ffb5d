import { describe, expect, test } from 'vitest';
import { parseLsof, parseSocketTables } from '../../../src/command/process-sockets.ts';

describe('reads the sockets of a process', () => {
  test('from the tables of Linux, IPv4 and IPv6 and one in the other', () => {
    const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:9C40 0100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20 4 30 10 -1
   1: 0000000000000000FFFF00000100007F:9C41 0000000000000000FFFF00000100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: 00000000000000000000000001000000:9C42 00000000000000000000000001000000:1538 01 00000000:00000000 00:00000000 00000000     0        0 4713 1
`;
    expect(parseSocketTables(table)).toEqual([
      { address: '127.0.0.1', port: 40000, peerAddress: '127.0.0.1', peerPort: 5432, inode: '4711' },
      { address: '127.0.0.1', port: 40001, peerAddress: '127.0.0.1', peerPort: 5432, inode: '4712' },
      { address: '::1', port: 40002, peerAddress: '::1', peerPort: 5432, inode: '4713' },
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
