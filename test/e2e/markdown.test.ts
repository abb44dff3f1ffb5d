/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { renderMarkdown } from '../../src/report/markdown.ts';
import { findBrowser } from '../helpers/browser.ts';
import { codeHostPage } from '../helpers/rendered-pages.ts';
import { sampleReport, sampleReports } from '../helpers/reports.ts';
import { skipReason } from '../helpers/requirements.ts';

const program = await findBrowser();
const needed = skipReason(program === null ? 'Chromium is not installed' : null);

let browser: Browser;

beforeAll(async () => {
  if (program === null) return;
  browser = await chromium.launch({
    executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
}, 60_000);

afterAll(() => browser?.close());

/** What a reader of the comment sees, everything unfolded, and what is where. */
async function shown(markdown: string, width: number) {
  const page = await browser.newPage({ viewport: { width, height: 900 } });
  try {
    await page.setContent(codeHostPage(markdown));
    return await page.evaluate(() => {
      for (const details of document.querySelectorAll('details')) details.open = true;
      const prose = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const texts: string[] = [];
      while (prose.nextNode())
        if (!prose.currentNode.parentElement?.closest('code, pre, style'))
          texts.push(prose.currentNode.textContent ?? '');
      return {
        prose: texts.join('\n'),
        heading: document.querySelector('h3')?.textContent ?? '',
        rows: [...document.querySelectorAll('tr')].map((row) => row.cells.length),
        tables: [...document.querySelectorAll('table')].map((table) => table.rows[0]?.cells.length ?? 0),
        folded: document.querySelectorAll('details').length,
        scripts: document.querySelectorAll('script, iframe, img, object').length,
        beyond: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      };
    });
  } finally {
    await page.close();
  }
}

describe.skipIf(needed !== false)('the Markdown report on a code host', () => {
  test.each(Object.entries(sampleReports))('%s shows no marks of its own syntax', async (_, report) => {
    const markdown = renderMarkdown(report);
    const page = await shown(markdown, 920);
    expect(page.heading).not.toBe('');
    expect(
      page.prose.match(/^.*(?:\*\*|```|\|\s*-{3}|<\/?(?:details|summary|br|code)\b|^#{2,} ).*$/gm),
    ).toBeNull();
    expect(page.folded).toBe(markdown.match(/<details>/g)?.length ?? 0);
    expect(page.tables.length).toBe(markdown.match(/^\|(?: *:?-+:? *\|)+$/gm)?.length ?? 0);
    expect(page.beyond).toBe(0);
  });

  test('nothing sticks out to the side on a phone', async () => {
    const { rewrite } = sampleReports;
    const page = await shown(renderMarkdown(rewrite ?? sampleReport()), 400);
    expect(page.beyond).toBe(0);
  });

  test('names and values from outside are text', async () => {
    const evil = '<img src=x onerror=alert(1)> **b** | `c` <script>1</script>';
    const { hazards } = sampleReports.rewrite ?? sampleReport();
    const report = sampleReport({
      hazards: hazards.map((hazard) => ({ ...hazard, relation: evil, message: evil, evidence: evil })),
    });
    const page = await shown(renderMarkdown(report), 920);
    expect(hazards.length).toBeGreaterThan(0);
    expect(page.scripts).toBe(0);
  });
});
