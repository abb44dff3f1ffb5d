import { expect, test } from 'vitest';
import { parseAllowedPlaces } from '../../../src/command/sandbox/allowed-places.ts';

test('each host gets an address of the sandbox of its own, loopback addresses keep theirs', () => {
  const { relays, sockets } = parseAllowedPlaces([
    'Registry.example:443',
    'vault.example:8200',
    'registry.example:80',
    'postgres:reports.example:5432',
    'none',
    'localhost:3000',
    '127.0.0.2:1',
    '/run/agent.sock',
  ]);
  expect(relays).toEqual([
    { host: 'registry.example', port: 443, postgres: false, inside: '127.65.0.1' },
    { host: 'vault.example', port: 8200, postgres: false, inside: '127.65.0.2' },
    { host: 'registry.example', port: 80, postgres: false, inside: '127.65.0.1' },
    { host: 'reports.example', port: 5432, postgres: true, inside: '127.65.0.3' },
    { host: 'localhost', port: 3000, postgres: false, inside: '127.0.0.1' },
    { host: '127.0.0.2', port: 1, postgres: false, inside: '127.0.0.2' },
  ]);
  expect(sockets).toEqual(['/run/agent.sock']);
});

test.each([
  'registry.example',
  'registry.example:0',
  'registry.example:65536',
  'https://registry.example:443',
  '10.0.0.1:443',
  '[::1]:443',
  ':443',
  'postgres:registry.example',
  'Postgres:registry.example:443',
  '',
])('%j is refused', (text) => {
  expect(() => parseAllowedPlaces([text])).toThrow('--permit');
});
