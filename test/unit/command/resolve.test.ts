import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resolveCommand } from '../../../src/command/resolve.ts';

let folder: string;

function file(name: string, text: string, mode = 0o755): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
  chmodSync(join(folder, name), mode);
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'resolve-'));
  file('bin/tool', '#!/bin/sh\n');
  file('bin/viaenv', '#!/usr/bin/env tool\n');
  file('bin/badenv', '#!/usr/bin/env no-such-interpreter\n');
  file('bin/envoption', '#!/usr/bin/env -S tool --flag\n');
  file('bin/badinterpreter', '#!/no/such/interpreter -x\n');
  file('bin/windows', '#!/bin/sh\r\necho\r\n');
  file('bin/noshebang', 'echo hello\n');
  file('bin/plain', '#!/bin/sh\n', 0o644);
  file('later/plain', '#!/bin/sh\n');
  file('closed/tool', '#!/bin/sh\n');
  chmodSync(folder, 0o755);
  chmodSync(join(folder, 'closed'), 0);
  file('script.sh', '#!/bin/sh\n');
  file('notes.txt', 'text', 0o644);
  file('node_modules/.bin/prisma', '#!/bin/sh\n');
  mkdirSync(join(folder, 'bin/folder'));
  mkdirSync(join(folder, 'packages/api'), { recursive: true });
});

afterAll(() => {
  chmodSync(join(folder, 'closed'), 0o700);
  rmSync(folder, { recursive: true });
});

const NOBODY = 65_534;

/** For root no folder is closed. @throws Error for root with the Node.js of Debian 13, which refuses seteuid() (CVE-2024-22017). */
function asOrdinaryUser<T>(attempt: () => T): T {
  if (process.getuid?.() !== 0) return attempt();
  process.seteuid?.(NOBODY);
  try {
    return attempt();
  } finally {
    process.seteuid?.(0);
  }
}

const where = (path = 'bin:later:/usr/bin:/bin') => ({ path, folder });

describe('the program that is started', () => {
  test.each([
    ['tool', 'bin/tool'],
    ['viaenv', 'bin/viaenv'],
    ['envoption', 'bin/envoption'],
    ['noshebang', 'bin/noshebang'],
    // Like a shell, it goes on behind a file that is not executable.
    ['plain', 'later/plain'],
    ['./script.sh', 'script.sh'],
    ['bin/tool', 'bin/tool'],
  ])('%s is %s', (program, expected) => {
    expect(resolveCommand([program, 'argument'], where())).toBe(join(folder, expected));
  });

  test('may be in the current folder where PATH has an empty entry', () => {
    expect(resolveCommand(['script.sh'], where('bin:'))).toBe(join(folder, 'script.sh'));
  });
});

function mayBeOrdinaryUser(): boolean {
  try {
    return asOrdinaryUser(() => true);
  } catch {
    return false;
  }
}

describe('what cannot be started', () => {
  test.each([
    ['', /empty/, undefined],
    ['nothing-here', /not in PATH/, /spelling/],
    ['prisma', /not in PATH/, /npx prisma/],
    ['npx prisma migrate', /not in PATH/, /without quotes/],
    ['FOO=bar', /not in PATH/, /env FOO=bar/],
    ['./missing.sh', /does not exist/, undefined],
    ['./notes.txt', /not executable/, /chmod \+x/],
    ['./bin', /is a folder/, undefined],
    ['folder', /is a folder/, undefined],
    ['badenv', /no-such-interpreter is not in PATH/, undefined],
    ['badinterpreter', /\/no\/such\/interpreter does not exist/, undefined],
    ['windows', /carriage return/, /Unix line ends/],
  ])('%j', (program, message, hint) => {
    const attempt = () => resolveCommand([program], where());
    expect(attempt).toThrow(message);
    expect(attempt).toThrow(
      expect.objectContaining({ code: 'COMMAND', ...(hint ? { hint: expect.stringMatching(hint) } : {}) }),
    );
  });

  test('a file that is only not executable in PATH is named', () => {
    expect(() => resolveCommand(['plain'], where('bin'))).toThrow(/bin\/plain is not executable/);
  });

  // It is left out without a word where it cannot run: a newcomer can do nothing about that.
  if (mayBeOrdinaryUser())
    test('a file in a folder that this user may not enter is told as that, and passed over in PATH', () => {
      expect(() => asOrdinaryUser(() => resolveCommand(['closed/tool'], where()))).toThrow(
        /is in a folder that this user may not read/,
      );
      expect(() => asOrdinaryUser(() => resolveCommand(['tool'], where('closed')))).toThrow(/not in PATH/);
      expect(asOrdinaryUser(() => resolveCommand(['tool'], where('closed:bin')))).toBe(
        join(folder, 'bin/tool'),
      );
    });

  test('a package of a folder above is recognised', () => {
    const inside = { path: '/usr/bin', folder: join(folder, 'packages/api') };
    expect(() => resolveCommand(['prisma'], inside)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('npx prisma') }),
    );
  });
});
