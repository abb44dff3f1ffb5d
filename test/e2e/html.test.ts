/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TrafficLog } from '../../src/load/traffic-log.ts';
import type { LoadSection, Report, StatementSection } from '../../src/model/report.ts';
import { renderHtml } from '../../src/report/html.ts';
import { findBrowser } from '../helpers/browser.ts';
import { sampleReport, sampleReports } from '../helpers/reports.ts';
import { skipReason } from '../helpers/requirements.ts';
import { sampleLoad } from '../helpers/sample-load.ts';

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

/** What axe objects to in all of the page, folded parts unfolded. */
async function objectionsOfAxe(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  await page.evaluate(() => {
    for (const folded of document.querySelectorAll('details')) folded.open = true;
  });
  const { violations } = await page.evaluate(() => (window as unknown as { axe: typeof axe }).axe.run());
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3)}`);
}

/** The state of the target, where the run changed it or was to change it; else the verdict. */
function titleOf({ apply, swap, target, verdict }: Report): RegExp {
  if (apply !== null)
    return { applied: /Applied/, refused: /Not applied/, failed: /failed/, partly: /a person must look/ }[
      apply.outcome
    ];
  if (swap !== null)
    return { swapped: /Swapped/, undone: /Swap undone/, refused: /Not swapped/ }[swap.outcome];
  if (target.changes.some(({ madeBy }) => madeBy === 'command')) return /a person must look/;
  return verdict.pass ? /Passed/ : /Did not pass/;
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

/** Every text of an apply, a swap and a forecast that comes from outside. */
function evilOutcomes(evil: string): Partial<Report> {
  const { apply } = sampleReports['half-applied'] ?? sampleReport();
  const { swap, forecast } = sampleReports.swapped ?? sampleReport();
  return {
    apply: withText(apply, evil),
    swap: withText(swap, evil),
    forecast: withText(forecast, evil),
  };
}

/** Every text in it is another one, but for the words of the report itself. */
function withText<T>(value: T, text: string): T {
  const change = (part: unknown, key: string): unknown => {
    if (typeof part === 'string') return key === 'outcome' ? part : text;
    if (Array.isArray(part)) return part.map((item) => change(item, key));
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([name, item]) => [name, change(item, name)]));
  };
  return change(value, '') as T;
}

const DESKTOP = { width: 1280, height: 720 };
const PHONE = { width: 390, height: 844 };

describe.skipIf(needed !== false)('the HTML report in a browser', () => {
  // The large one takes axe half a minute, and has nothing that the others lack.
  const looked = Object.keys(sampleReports).filter((name) => name !== 'large');
  test.each(Object.entries(sampleReports))(
    '%s opens without a message or a request, nothing sticks out on a phone, and axe has no objection',
    async (name, report) => {
      await withPage(
        report,
        async ({ page, heard }) => {
          expect(await page.locator('h1').textContent()).toMatch(titleOf(report));
          const { scrollWidth, clientWidth } = await page.evaluate(() => document.documentElement);
          expect(scrollWidth).toBe(clientWidth);
          await page.setViewportSize(DESKTOP);
          expect(await page.locator('h1').textContent()).toMatch(titleOf(report));
          expect(heard).toEqual([]);
          if (looked.includes(name)) expect(await objectionsOfAxe(page)).toEqual([]);
        },
        { viewport: PHONE, reducedMotion: 'reduce' },
      );
    },
  );

  const shown = ['rewrite', 'half-applied', 'swapped'];
  test.each([...shown.map((name) => [1280, name] as const), ...shown.map((name) => [400, name] as const)])(
    '%i px wide nothing of %s sticks out to the side, in both themes',
    async (width, name) => {
      await withPage(
        sampleReports[name] ?? sampleReport(),
        async ({ page, heard }) => {
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.emulateMedia({ colorScheme });
            const overflow = await page.evaluate(
              () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
            );
            expect(overflow).toBe(0);
            const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
            expect(background).toBe(colorScheme === 'dark' ? 'rgb(13, 17, 23)' : 'rgb(255, 255, 255)');
          }
          expect(heard).toEqual([]);
        },
        { viewport: { width, height: 900 } },
      );
    },
  );

  test.each(['rewrite', 'half-applied', 'target-changed'])(
    'axe finds nothing to object to in %s in the dark theme',
    async (name) => {
      const options = { colorScheme: 'dark', reducedMotion: 'reduce' };
      const objections = await withPage(
        sampleReports[name] ?? sampleReport(),
        ({ page }) => objectionsOfAxe(page),
        options,
      );
      expect(objections).toEqual([]);
    },
  );

  test('on a phone the first finding is seen without scrolling, and only the outcome is red', async () => {
    const accept = `--accept 'TABLE_REWRITTEN:public."${'Events'.repeat(12)}"="…"'`;
    const base = sampleReports.rewrite ?? sampleReport();
    const reason = `TABLE_REWRITTEN on public.events: the table is rewritten; to accept it: ${accept}`;
    const report = { ...base, verdict: { pass: false, reasons: [reason] } };
    await withPage(
      report,
      async ({ page }) => {
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(PHONE.width);
        const finding = await page.locator('.finding').first().boundingBox();
        expect(finding?.y).toBeLessThan(PHONE.height - 100);
        const colourOf = (selector: string) =>
          page
            .locator(selector)
            .first()
            .evaluate((element) => getComputedStyle(element).color);
        expect(await colourOf('h1 .why')).toBe(await colourOf('body'));
        expect(await colourOf('h1 .outcome')).not.toBe(await colourOf('body'));
      },
      { viewport: PHONE },
    );
  });

  test('on a phone the first answers stand before the findings, and on a wide page behind them', async () => {
    const topOf = (page: Page, selector: string) =>
      page
        .locator(selector)
        .first()
        .evaluate((element) => element.getBoundingClientRect().top);
    await withPage(
      sampleReports.rewrite ?? sampleReport(),
      async ({ page }) => {
        const isFirst = async () => (await topOf(page, '#answers')) < (await topOf(page, '#hazards'));
        expect(await topOf(page, '.verdict')).toBeLessThan(await topOf(page, '#answers'));
        expect(await isFirst()).toBe(true);
        await page.setViewportSize(DESKTOP);
        expect(await isFirst()).toBe(false);
      },
      { viewport: PHONE },
    );
  });

  test.each([true, false])(
    'on a phone no label of the time axis is on another, scripts allowed: %s',
    async (javaScriptEnabled) => {
      await withPage(
        sampleReports.rewrite ?? sampleReport(),
        async ({ page }) => {
          const labels = await page.locator('#ticks text').all();
          const boxes = await Promise.all(labels.map((label) => label.boundingBox()));
          expect(boxes.length).toBeGreaterThan(1);
          for (const [at, box] of boxes.entries()) {
            const next = boxes[at + 1];
            if (next) expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThan(next.x);
          }
        },
        { viewport: PHONE, javaScriptEnabled },
      );
    },
  );

  test('on a phone a cell with a sentence does not make its row higher than a fifth of the page', async () => {
    await withPage(
      sampleReports.swapped ?? sampleReport(),
      async ({ page }) => {
        const rows = await page.locator('tr').all();
        const boxes = await Promise.all(rows.map((row) => row.boundingBox()));
        const heights = boxes.flatMap((box) => (box ? [box.height] : []));
        expect(heights.length).toBeGreaterThan(5);
        expect(Math.max(...heights)).toBeLessThan(PHONE.height / 5);
      },
      { viewport: PHONE },
    );
  });

  test('a button copies the statements of an advice', async () => {
    const base = sampleReports.rewrite ?? sampleReport();
    const hazards = base.hazards.map((hazard) => ({ ...hazard, advice: 'Do this:\nSELECT 1;\nSELECT 2;' }));
    await withPage({ ...base, hazards }, async ({ page, heard }) => {
      await page.evaluate(() => {
        const copied = {
          async writeText(text: string) {
            document.body.dataset.copied = text;
          },
        };
        Object.defineProperty(navigator, 'clipboard', { value: copied });
      });
      const button = page.locator('.finding .copy button').first();
      expect(await button.isVisible()).toBe(true);
      await button.click();
      expect(await page.locator('body').getAttribute('data-copied')).toBe('SELECT 1;\nSELECT 2;');
      expect(await button.textContent()).toBe('Copied');
      expect(heard).toEqual([]);
    });
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
      expect(await page.locator('#ticks text').count()).toBe(10);
      await page.locator('rect.statement[data-statement="101"]').hover({ force: true });
      expect(await page.locator('#detail').textContent()).toContain("note = 'number 101'");
      expect(heard).toEqual([]);
    });
  });

  test('of the locks that a transaction has on one relation, the strongest is seen', async () => {
    const run = longRun(2);
    const lock = (mode: string, heldMs: number) => [
      { relation: 'public.orders', mode, acquiredBy: 'x', heldMs, blocks: [] },
    ];
    const modes = ['ACCESS EXCLUSIVE', 'ROW EXCLUSIVE'] as const;
    const statements = run.statements.map((statement, index) => ({
      ...statement,
      locks: lock(modes[index] ?? '', index === 0 ? 100 : 80),
    }));
    await withPage({ ...run, statements }, async ({ page }) => {
      await page.locator('rect.lock').first().scrollIntoViewIfNeeded();
      const seen = await page.locator('rect.lock').evaluateAll((bars) => {
        const { left, width, top, height } = bars[0]?.getBoundingClientRect() ?? new DOMRect();
        const found = document.elementFromPoint(left + width / 2, top + height / 2);
        return { bars: bars.length, title: found?.textContent };
      });
      expect(seen).toEqual({ bars: 2, title: 'ACCESS EXCLUSIVE on public.orders for 100 ms' });
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
      caveats: [{ path: evil, kind: 'estimate', reason: evil }],
      schema: report.schema && {
        ...report.schema,
        changes: [{ verb: 'create', kind: evil, object: evil, sql: evil, dataLoss: true }],
        objects: (
          [
            ['create', null, evil],
            ['drop', evil, null],
            ['alter', `a\n${evil}1\nb`, `a\n${evil}2\nb`],
          ] as const
        ).map(([verb, before, after]) => ({ verb, before, after, kind: evil, object: evil, formerly: evil })),
      },
      ...evilOutcomes(evil),
    });
    await withPage(hostile, async ({ page, heard }) => {
      expect(await page.locator('td.sql').first().textContent()).toBe(evil);
      expect(await page.locator('img').count()).toBe(0);
      expect(await page.locator('script').count()).toBe(1);
      expect(await page.locator('svg[onload]').count()).toBe(0);
      const cards = page.locator('details.object');
      expect(await cards.locator('pre').allTextContents()).toEqual([
        'does not exist',
        evil,
        evil,
        'does not exist',
      ]);
      expect(await cards.locator('del, ins').allTextContents()).toEqual([`${evil}1`, `${evil}2`]);
      for (const name of ['Apply', 'Swap', 'Forecast'])
        expect(await page.getByRole('region', { name }).textContent()).toContain(evil);
      expect(await page.title()).toContain(evil);
      expect(heard).toEqual([]);
    });
  });

  test('an apply that needs a person says so first, and what stays, what was in the way, and both times', async () => {
    const report = sampleReports['half-applied'] ?? sampleReport();
    await withPage(report, async ({ page }) => {
      const apply = page.getByRole('region', { name: 'Apply' });
      expect(await apply.locator('h1').textContent()).toContain('look at shop on db.internal:5432 now');
      expect(await page.locator('main > :first-child').getAttribute('aria-label')).toBe('Apply');
      const effects = await apply.locator('li').allTextContents();
      expect(effects).toContain('may have been committed 2. UPDATE public.orders SET coupon_id = NULL');
      expect(effects).toContain(`not committed 3. INSERT INTO public.coupons VALUES (1, 'WELCOME')`);
      const rows = await apply.locator('tr').allTextContents();
      expect(rows).toContain(
        '2 1.8 s 7.9 s120,400, rehearsed 120,000UPDATE public.orders SET coupon_id = NULL',
      );
      const text = await apply.textContent();
      for (const words of [
        'instead of a rehearsal, 47.8 s old, signed',
        'failed with exit code 3 after 8.1 s',
        '2 attempts timed out waiting for the lock or ended in a deadlock, 810 ms of pauses, then it went on',
        'process 4711 (reports, metabase, idle in transaction, since 2026-03-14 02:03 UTC) blocked CREATE TABLE',
        'its query: SELECT sum(total)',
        'stopped, because it was not rehearsed: DROP TABLE public.legacy',
        'missing: create index public.coupons_code_key',
        'DROP TABLE public.coupons;',
      ])
        expect(text).toContain(words);
      const [rehearsed, real] = await apply
        .locator('tr', { hasText: '7.9 s' })
        .locator('.bar')
        .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
      expect(rehearsed).toBeLessThan((real ?? 0) / 4);
    });
  });

  test('a swap says for how long the target was closed, where the original is and how to go back', async () => {
    await withPage(sampleReports.swapped ?? sampleReport(), async ({ page }) => {
      const swap = page.getByRole('region', { name: 'Swap' });
      expect(await swap.locator('h1').textContent()).toBe(
        '✓ Swapped: shop is now the migrated clone, closed for 3.1 s',
      );
      const text = await swap.textContent();
      for (const words of [
        'kept as shop_before_01jq4x9d0k7pt',
        'safemigrate rollback',
        'Sessions17 terminated',
      ])
        expect(text).toContain(words);
      expect(await swap.locator('tbody tr').allTextContents()).toEqual([
        'close 84 ms',
        'clone 620 ms',
        'command 2.2 s',
        'rename 11 ms',
      ]);
    });
  });

  test('the forecast stands with its inputs', async () => {
    await withPage(sampleReports.swapped ?? sampleReport(), async ({ page }) => {
      const forecast = page.getByRole('region', { name: 'Forecast' });
      const [first, second, third] = await forecast.locator('tbody tr').allTextContents();
      expect(first).toContain(
        'public.orders ACCESS EXCLUSIVE (statement 2)4.2 sreads, writes212.0/s18.0/sabout 966 statements',
      );
      expect(first).toContain('CONNECTIONS WOULD RUN OUT: 41 open and 966 waiting, of 97');
      expect(first).toContain('the statement would first wait for "nightly report"');
      expect(second).toContain('unknown');
      expect(third).toContain('at this traffic no session would wait');
      const text = await forecast.textContent();
      for (const words of [
        "from 14.2 s of the target's statistics: 230 transactions/s, 41 of 97 sessions open",
        'the synchronous standby replica would fall up to 21 GB behind',
        'the replication slot forgotten is inactive',
        '41 open; 100 possible, 3 of them reserved',
        'WAL written20 GB',
        'needed: 45 GB; free: unknown',
      ])
        expect(text).toContain(words);
    });
  });

  test('rows that were written are listed, and a rename is one change', async () => {
    const base = sampleReports.rewrite ?? sampleReport();
    const written = [{ relation: 'public.orders', inserted: 0, updated: 66_667, deleted: 3 }];
    const report = sampleReport({ ...base, data: base.data && { ...base.data, written } });
    await withPage(report, async ({ page }) => {
      expect(await page.getByRole('region', { name: 'Data', exact: true }).textContent()).toContain(
        'rows of public.orders: 66,667 updated, 3 deleted',
      );
      const changes = report.schema?.changes.length;
      const schema = page.getByRole('region', { name: 'Schema' });
      expect(await schema.locator('p').first().textContent()).toContain(`${changes} changes (`);
    });
  });

  describe('the objects that changed', () => {
    const columns = Array.from({ length: 30 }, (_, index) => `  c${index} int`).join(',\n');
    const orders = (last: string) =>
      `CREATE TABLE public.orders (\n${columns},\n  ${last}\n);\nCREATE INDEX i;`;
    const schema = sampleReport().schema;
    const report = sampleReport({
      schema: schema && {
        ...schema,
        changes: [
          { verb: 'drop', kind: 'table', object: 'public.old', sql: 'DROP TABLE public.old', dataLoss: true },
        ],
        objects: [
          {
            verb: 'create',
            kind: 'table',
            object: 'public.coupons',
            formerly: null,
            before: null,
            after: 'CREATE TABLE public.coupons ();',
          },
          {
            verb: 'drop',
            kind: 'table',
            object: 'public.old',
            formerly: null,
            after: null,
            before: 'CREATE TABLE public.old ();',
          },
          {
            verb: 'alter',
            kind: 'table',
            object: 'public.orders',
            formerly: 'public.bills',
            before: orders('total int'),
            after: orders(`total bigint NOT NULL,\n  ${'very_'.repeat(30)}long text`),
          },
        ],
        objectsLeftOut: 3,
      },
    });
    const sides = (page: Page) => {
      const orders = page.locator('details.object').last();
      return { before: orders.getByLabel('Before'), after: orders.getByLabel('After') };
    };

    test('stand beside each other, what differs marked, and what is equal folded', async () => {
      await withPage(report, async ({ page, heard }) => {
        const cards = page.locator('details.object');
        expect(await cards.locator('summary').allTextContents()).toEqual([
          'create table public.coupons',
          'drop table public.old destroys data',
          'alter table public.orders, formerly public.bills',
        ]);
        expect(await cards.nth(0).getByLabel('Before').textContent()).toBe('Beforedoes not exist');
        expect(await cards.nth(1).getByLabel('After').textContent()).toBe('Afterdoes not exist');
        const { before, after } = sides(page);
        expect(await before.locator('del').allTextContents()).toEqual(['  total int']);
        expect(await after.locator('ins').allTextContents()).toEqual([
          '  total bigint NOT NULL,',
          `  ${'very_'.repeat(30)}long text`,
        ]);
        expect(await before.locator('b').allTextContents()).toEqual(['int']);
        expect(await after.locator('b').allTextContents()).toEqual(['bigint NOT NULL,']);
        expect(await before.getByText('25 equal lines').count()).toBe(1);
        expect(await page.getByText('3 more changed objects not described here.').count()).toBe(1);
        // The lines of both sides are level with each other, also behind those that only one of them has.
        const [left, right] = await Promise.all(
          [before, after].map((side) => side.getByText('CREATE INDEX i;').boundingBox()),
        );
        expect(left?.y).toBe(right?.y);
        expect(left?.x).toBeLessThan(right?.x ?? 0);
        expect(heard).toEqual([]);
      });
    });

    test.each(['light', 'dark'] as const)(
      'stand below each other on a narrow screen, %s',
      async (colorScheme) => {
        await withPage(
          report,
          async ({ page }) => {
            const { before, after } = sides(page);
            const end = await before.getByText('CREATE INDEX i;').boundingBox();
            const begin = await after.getByText('CREATE TABLE public.orders (').boundingBox();
            expect(end?.y).toBeLessThan(begin?.y ?? 0);
            expect(end?.x).toBe(begin?.x);
            const overflow = await page.evaluate(
              () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
            );
            expect(overflow).toBe(0);
          },
          { colorScheme, viewport: { width: 400, height: 900 } },
        );
      },
    );

    test('are folded and unfolded with the keyboard, and all shown in print', async () => {
      await withPage(report, async ({ page }) => {
        const { before } = sides(page);
        await page.locator('details.object summary').last().focus();
        await page.keyboard.press('Enter');
        expect(await before.isVisible()).toBe(false);
        await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
        await page.emulateMedia({ media: 'print' });
        expect(await before.getByText('CREATE INDEX i;').isVisible()).toBe(true);
      });
    });

    test('are absent from a report that was made before they were told', async () => {
      const { objects: _objects, objectsLeftOut: _leftOut, ...older } = report.schema ?? {};
      await withPage(sampleReport({ schema: older as Report['schema'] }), async ({ page }) => {
        expect(await page.locator('details.object').count()).toBe(0);
        expect(await page.getByText('DROP TABLE public.old', { exact: true }).isVisible()).toBe(true);
      });
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

describe.skipIf(needed)('a page with hours of load', () => {
  /** As the log of a run that lasted so long counts them. */
  function hoursOfLoad(minutes: number): LoadSection {
    const log = new TrafficLog();
    const totalMs = minutes * 60_000;
    for (let at = 0; at < totalMs; at += 100) {
      const endedMs = log.startedMs + at + 3;
      log.add({ startedMs: endedMs - 2 - (at % 700) / 10, endedMs, error: null });
    }
    const statements = sampleReport().statements.map((statement) => ({
      ...statement,
      startedAt: new Date(Date.parse(sampleLoad().startedAt) + 5000).toISOString(),
    }));
    const run = {
      seconds: log.seconds((fromMs) => (fromMs > totalMs / 2 ? 0 : 12)),
      command: { exitCode: 0, startedMs: 5000, endedMs: totalMs / 2, schemaEqual: true },
      statements,
      mostWaiting: 12,
      someWaitedMs: totalMs / 2,
      longestWaitMs: 5000,
      blockedMs: 60_000,
    };
    const { source: _, origin: __, guarded: ___, ...guarded } = sampleLoad(run);
    return sampleLoad({ ...run, guarded: { ...guarded, guardrails: null } });
  }

  test.each([10, 600])('stays small enough to open at once, with %i minutes of it', async (minutes) => {
    const report = sampleReport({ load: hoursOfLoad(minutes) });
    expect(report.load?.seconds.length).toBeLessThanOrEqual(300);
    expect(renderHtml(report).length).toBeLessThan(renderHtml(sampleReport()).length + 600_000);
    await withPage(report, async ({ page, heard }) => {
      expect(await page.locator('*').count()).toBeLessThan(4_000);
      expect(await page.locator('figure.load svg').count()).toBeGreaterThan(3);
      const [chart, lane] = await page
        .locator('figure.load')
        .first()
        .locator('svg')
        .evaluateAll((all) =>
          all.map((each) => each.getBoundingClientRect()).map(({ left, width }) => [left, width]),
        );
      expect(lane).toEqual(chart);
      expect(heard).toEqual([]);
    });
  });
});
