import { expect, test } from 'vitest';
import { render } from '../../../src/report/render.ts';
import { sampleReport } from '../../helpers/reports.ts';

const reason = '2 sessions came to the target while the command ran';
const unproved = sampleReport({
  target: { unchanged: null },
  caveats: [{ path: 'target.unchanged', kind: 'unmeasured', reason }],
});
const style = { colour: false, columns: 120, unicode: true };
const WORDS = `Could not verify that the target is unchanged: ${reason}`;

test.each([
  ['text', 2],
  ['markdown', 4],
  ['junit', 5],
] as const)(
  'the %s report says within its first lines that the target is not proved unchanged',
  async (format, lines) => {
    const top = (await render(unproved, format, style)).split('\n').slice(0, lines).join('\n');
    expect(top).toContain(WORDS);
    expect(await render(sampleReport(), format, style)).not.toContain('not verify');
  },
);

test('the page has it in its header', async () => {
  const page = await render(unproved, 'html', style);
  expect(page.split('</header>')[0]?.replace(/<[^>]+>/g, '')).toContain(WORDS);
});

test('a report of an earlier version says it if it has a reason for it', async () => {
  const { unchanged: _, ...target } = sampleReport().target;
  const old = (caveats: typeof unproved.caveats) =>
    ({ ...sampleReport({ caveats }), target }) as typeof unproved;
  expect(await render(old([]), 'text', style)).toContain('; unchanged\n');
  expect(
    await render(old([{ path: 'target.changes', kind: 'unmeasured', reason }]), 'text', style),
  ).toContain(WORDS);
});
