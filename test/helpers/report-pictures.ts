/// <reference lib="dom" />
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import type { Report } from '../../src/model/report.ts';
import { renderHtml } from '../../src/report/html.ts';
import { renderMarkdown } from '../../src/report/markdown.ts';
import { renderText } from '../../src/report/text.ts';
import { findBrowser } from './browser.ts';
import { codeHostPage, terminalPage } from './rendered-pages.ts';

interface Picture {
  readonly html: string;
  readonly width: number;
  /** So much of the page is in the picture; all of it if undefined. */
  readonly height?: number;
  readonly dark?: boolean;
}

const COLUMNS = 80;

/** The pictures of a report in docs/, by the names of their files: each format as its readers see it. */
function picturesOf(report: Report): Readonly<Record<string, Picture>> {
  const page = { html: renderHtml(report), width: 1100, height: 900 };
  const text = renderText(report, { columns: COLUMNS, colour: true, unicode: true });
  return {
    'report-light.png': page,
    'report-dark.png': { ...page, dark: true },
    'report-terminal.png': { html: terminalPage(text), width: 760 },
    'report-markdown.png': { html: codeHostPage(renderMarkdown(report)), width: 920, height: 1100 },
  };
}

/** Writes pictures of a report in all formats into a folder. @throws if there is no Chromium. */
export async function takePictures(report: Report, folder: string): Promise<void> {
  const executablePath = await findBrowser();
  if (executablePath === null) throw new Error('the pictures need Chromium');
  const work = mkdtempSync(path.join(tmpdir(), 'safemigrate-pictures-'));
  const file = path.join(work, 'report.html');
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  for (const [name, { html, width, height, dark }] of Object.entries(picturesOf(report))) {
    writeFileSync(file, html);
    const page = await browser.newPage({
      colorScheme: dark ? 'dark' : 'light',
      viewport: { width, height: height ?? 200 },
    });
    await page.goto(pathToFileURL(file).href);
    await page.screenshot({ path: path.join(folder, name), fullPage: height === undefined });
  }
  await browser.close();
  rmSync(work, { recursive: true });
}
