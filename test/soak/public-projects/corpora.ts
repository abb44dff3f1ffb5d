import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import type { Toolchain } from '../../helpers/toolchains.ts';
import { PYTHON } from '../../helpers/tools.ts';
import { batches, type Migration, sideBySide } from './batches.ts';
import * as django from './django/labels.ts';
import { FILL_NULLS } from './fill.ts';
import * as npm from './npm/labels.ts';

/** Migrations that other people ship, and what a reader of their SQL expects of them. */
export interface Corpus {
  readonly name: string;
  /** Brings the packages; its pins lie in `folder`. */
  readonly toolchain: Toolchain;
  readonly folder: string;
  /** @param installed where the packages are, @param url an empty database. */
  readonly record: (installed: string, url: string) => Promise<Migration[]>;
  /** Migrations that one rehearsal can tell apart. */
  readonly batches: (migrations: readonly Migration[]) => Migration[][];
  readonly labels: Readonly<Record<string, readonly string[]>>;
  readonly harmless: readonly string[];
  /** Precision and recall that it has to reach: where there are few labels, each weighs more. */
  readonly least: number;
}

const folderOf = (name: string) => fileURLToPath(new URL(`${name}/`, import.meta.url));

const PACKAGES: Toolchain = {
  pins: [],
  probe: ['npm', '--version'],
  needs: 'npm',
  // Without what they depend on: only their SQL is read.
  install: [
    [
      'npm',
      'pack',
      '--silent',
      'graphile-worker@0.18.0',
      '@medusajs/order@2.21.2',
      '@medusajs/product@2.21.2',
    ],
    [
      'sh',
      '-c',
      'for file in *.tgz; do name=$(echo "$file" | sed "s/-[0-9].*//"); mkdir "$name" && tar -xzf "$file" -C "$name" --strip-components=1 || exit 1; done',
    ],
  ],
};

export const CORPORA: readonly Corpus[] = [
  {
    name: 'public-projects',
    toolchain: PYTHON,
    folder: folderOf('django'),
    record: async (installed, url) => {
      const script = path.join(folderOf('django'), 'record.py');
      const { stdout } = await execa(path.join(installed, 'bin/python'), [script], {
        env: { DATABASE_URL: url },
      });
      const recorded = JSON.parse(stdout) as (Migration & { statements: (string | null)[] })[];
      return recorded.map(({ statements, ...migration }) => ({
        ...migration,
        // Code of the project's own ran there, which fills new columns.
        statements: statements.map((statement) => statement ?? FILL_NULLS),
      }));
    },
    batches,
    labels: django.LABELS,
    harmless: django.HARMLESS,
    least: 0.95,
  },
  {
    name: 'public-packages',
    toolchain: PACKAGES,
    folder: folderOf('npm'),
    record: async (installed) => {
      const script = path.join(folderOf('npm'), 'record.mjs');
      const { stdout } = await execa(process.execPath, [script, installed], { maxBuffer: 2 ** 25 });
      return JSON.parse(stdout) as Migration[];
    },
    batches: sideBySide,
    labels: npm.LABELS,
    harmless: npm.HARMLESS,
    least: 0.9,
  },
];
