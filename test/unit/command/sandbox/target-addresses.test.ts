import { networkInterfaces } from 'node:os';
import { expect, test } from 'vitest';
import { placesOfTarget, withPlacesOf } from '../../../../src/command/sandbox/target-addresses.ts';
import { parseSettings } from '../../../../src/postgres/connection/connection-url.ts';
import type { Environment } from '../../../../src/postgres/connection/environment.ts';

const NOTHING: Environment = {
  env: {},
  folder: '/project',
  home: '/home/me',
  user: 'me',
  readFile: () => undefined,
  isPrivate: () => false,
  exists: () => false,
};

const settings = (url: string) => parseSettings(url, NOTHING);

const placesOf = async (url: string, ...further: string[]) => {
  const { addresses, names } = await placesOfTarget(withPlacesOf(settings(url), further.map(settings)));
  return { addresses: addresses.map(({ host, port }) => `${host} ${port}`), names };
};

test('an address elsewhere is the only one', async () => {
  expect(await placesOf('postgresql://a:b@192.0.2.7:6000/shop')).toEqual({
    addresses: ['192.0.2.7 6000'],
    names: {},
  });
});

test.each(['127.0.0.1', 'localhost', '[::1]', '0.0.0.0'])(
  'a server at %s is found at all addresses of this machine',
  async (host) => {
    const { addresses, names } = await placesOf(`postgresql://a:b@${host}:6000/shop`);
    const devices = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    const outer = devices.filter(({ address }) => !address.startsWith('fe80:'));
    for (const address of ['127.0.0.1', '::1', ...outer.map((each) => each.address)])
      expect(addresses).toContain(`${address} 6000`);
    expect(names).toEqual({});
  },
);

test('each host of a list counts, and so do the addresses beside names and further connections', async () => {
  const { addresses, names } = await placesOf(
    'postgresql://a:b@one.invalid:6000,TWO.invalid.:6001/shop?hostaddr=192.0.2.1,2001:db8::2',
    'postgresql://a:b@192.0.2.9:6432/shop',
  );
  expect(names).toEqual({ 'one.invalid': '127.66.2.1', 'two.invalid': '127.66.2.2' });
  expect(addresses.toSorted()).toEqual([
    '127.66.2.1 6000',
    '127.66.2.2 6001',
    '192.0.2.1 6000',
    '192.0.2.9 6432',
    '2001:db8::2 6001',
  ]);
});

test('a Unix socket is no address', async () => {
  expect(await placesOf('postgresql://a:b@%2Ftmp:6000/shop')).toEqual({ addresses: [], names: {} });
});
