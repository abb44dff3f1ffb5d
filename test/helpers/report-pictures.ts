/// <reference lib="dom" />
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import type { Report } from '../../src/model/report.ts';
import { renderHtml } from '../../src/report/html.ts';
import { findBrowser } from './browser.ts';

/** So much of the page is in the picture. */
const SIZE = { width: 1100, height: 900 };

/** Writes pictures of a report's page as `report-light.png` and `report-dark.png`. @throws if there is no Chromium. */
export async function takePictures(report: Report, folder: string): Promise<void> {
  const executablePath = await findBrowser();
  if (executablePath === null) throw new Error('the pictures need Chromium');
  const work = mkdtempSync(path.join(tmpdir(), 'safemigrate-pictures-'));
  const file = path.join(work, 'report.html');
  writeFileSync(file, renderHtml(report));
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await browser.newPage({ colorScheme, viewport: SIZE });
    await page.goto(pathToFileURL(file).href);
    await page.screenshot({ path: path.join(folder, `report-${colorScheme}.png`) });
  }
  await browser.close();
  rmSync(work, { recursive: true });
}
