import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { renderHtml } from '../../src/report/html.ts';
import type { Report, StatementSection } from '../../src/report/model.ts';
import { findBrowser } from '../helpers/browser.ts';
import { sampleReport, sampleReports } from '../helpers/reports.ts';
import { skipReason } from '../helpers/requirements.ts';

const program = await findBrowser();
const needed = skipReason(program === null ? 'Chromium is not installed' : null);

let browser: Browser;
let folder: string;

beforeAll(async () => {
  if (program === null) return;
  browser = await chromium.launch({
    executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-html-'));
}, 60_000);

afterAll(async () => {
  await browser?.close();
  if (folder) await rm(folder, { recursive: true });
});

interface Opened {
  readonly page: Page;
  /** Everything that the page said or asked for beyond its own file. */
  readonly heard: string[];
}

async function withPage<T>(report: Report, use: (opened: Opened) => Promise<T>, options = {}): Promise<T> {
  const file = path.join(folder, `${Math.random().toString(36).slice(2)}.html`);
  await writeFile(file, renderHtml(report));
  const page = await browser.newPage(options);
  const heard: string[] = [];
  page.on('console', (message) => heard.push(message.text()));
  page.on('pageerror', (error) => heard.push(String(error)));
  page.on('dialog', (dialog) => {
    heard.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url() !== pathToFileURL(file).href) heard.push(request.url());
  });
  try {
    await page.goto(pathToFileURL(file).href);
    return await use({ page, heard });
  } finally {
    await page.close();
  }
}

/** A run of so many statements over two sessions, every tenth with a lock. */
function longRun(count: number): Report {
  const start = Date.parse('2026-03-14T02:11:08Z');
  const statements = Array.from(
    { length: count },
    (_, index): StatementSection => ({
      index: index + 1,
      session: (index % 2) + 1,
      sql: `UPDATE public.orders SET note = 'number ${index + 1}' WHERE id = ${index + 1}`,
      tag: 'UPDATE',
      startedAt: new Date(start + index * 20).toISOString(),
      durationMs: 5 + (index % 13),
      rows: 1,
      transaction: index + 1,
      explicit: false,
      exactness: 'exact',
      error: null,
      locks:
        index % 10 === 0
          ? [
              {
                relation: `public.t${index % 7}`,
                mode: 'ACCESS EXCLUSIVE',
                acquiredBy: 'x',
                heldMs: 15,
                blocks: ['reads', 'writes'],
              },
            ]
          : [],
      rewrote: [],
      walBytes: null,
    }),
  );
  return sampleReport({ statements });
}

describe.skipIf(needed !== false)('the HTML report in a browser', () => {
  test.each(Object.entries(sampleReports))('%s opens without a message or a request', async (_, report) => {
    await withPage(report, async ({ page, heard }) => {
      expect(await page.locator('h1').textContent()).toMatch(report.verdict.pass ? /Passed/ : /Did not pass/);
      expect(heard).toEqual([]);
    });
  });

  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 400],
    ['dark', 400],
  ] as const)('in the %s theme and %i px wide nothing sticks out to the side', async (colorScheme, width) => {
    const report = sampleReports.rewrite ?? sampleReport();
    const options = { colorScheme, viewport: { width, height: 900 } };
    await withPage(
      report,
      async ({ page }) => {
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        expect(overflow).toBe(0);
        const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        expect(dark).toBe(colorScheme === 'dark' ? 'rgb(13, 17, 23)' : 'rgb(255, 255, 255)');
      },
      options,
    );
  });

  test('the timeline zooms, and shows the statement of the bar under the pointer', async () => {
    await withPage(longRun(500), async ({ page, heard }) => {
      const svg = page.locator('#lanes svg');
      const width = () => svg.evaluate((element) => element.getBoundingClientRect().width);
      const before = await width();
      await page.getByRole('button', { name: 'Zoom in' }).click();
      expect(await width()).toBeCloseTo(before * 2, 0);
      expect(await page.locator('#ticks text').count()).toBeGreaterThan(10);
      await page.getByRole('button', { name: 'Whole run' }).click();
      expect(await width()).toBeCloseTo(before, 0);
      await page.locator('rect.statement[data-statement="101"]').hover({ force: true });
      expect(await page.locator('#detail').textContent()).toContain("note = 'number 101'");
      expect(heard).toEqual([]);
    });
  });

  test('the timeline can be walked with the keyboard alone', async () => {
    await withPage(longRun(20), async ({ page }) => {
      await page.locator('#lanes').focus();
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('ArrowRight');
      expect(await page.locator('#detail').textContent()).toContain("note = 'number 3'");
    });
  });

  test('statements are sorted by time and searched', async () => {
    await withPage(longRun(40), async ({ page }) => {
      await page.getByRole('button', { name: 'Time' }).click();
      const times = await page
        .locator('#statement-table tbody tr td:nth-child(2)')
        .evaluateAll((cells) => cells.map((cell) => Number(cell.getAttribute('data-value'))));
      expect(times).toEqual(times.toSorted((one, other) => other - one));
      await page.getByLabel('Search').fill('number 17');
      expect(await page.locator('#statement-table tbody tr:visible').count()).toBe(1);
      expect(await page.locator('#found').textContent()).toBe('1 found');
    });
  });

  test('markup and script in statements, names and errors are text', async () => {
    const evil = `</script><script>alert(1)</script><img src=x onerror="alert(2)"><svg onload=alert(3)>' " &amp;`;
    const report = longRun(3);
    const [statement] = report.statements;
    if (!statement) throw new Error('there is a statement');
    statement.sql = evil;
    const hostile = sampleReport({
      ...report,
      target: { ...report.target, database: evil },
      command: { ...report.command, argv: [evil] },
      verdict: { pass: false, reasons: [evil] },
      hazards: [
        {
          code: evil,
          severity: 'error',
          statement: 1,
          relation: evil,
          message: evil,
          evidence: evil,
          advice: evil,
          allowed: false,
        },
      ],
      limits: [{ path: evil, kind: 'estimate', reason: evil }],
    });
    await withPage(hostile, async ({ page, heard }) => {
      expect(await page.locator('td.sql').first().textContent()).toBe(evil);
      expect(await page.locator('img').count()).toBe(0);
      expect(await page.locator('script').count()).toBe(1);
      expect(await page.title()).toContain(evil);
      expect(heard).toEqual([]);
    });
  });

  test('500 statements make a page below 1 MB, and 5,000 are still sorted and zoomed', async () => {
    expect(renderHtml(longRun(500)).length).toBeLessThan(1024 * 1024);
    await withPage(longRun(5_000), async ({ page, heard }) => {
      await page.getByRole('button', { name: 'Rows' }).click();
      await page.getByRole('button', { name: 'Zoom in' }).click();
      expect(await page.locator('#statement-table tbody tr').count()).toBe(5_000);
      expect(heard).toEqual([]);
    });
  });
});
