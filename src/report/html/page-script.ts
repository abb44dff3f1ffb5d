/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

/** What the page does beyond being read: it runs in the browser, so that it may use nothing from outside of itself. */
function page(): void {
  const TICKS_PER_WIDTH = 10;
  const lanes = document.getElementById('lanes');
  const detail = document.getElementById('detail');
  const svg = lanes?.querySelector('svg');
  const rows = document.querySelector<HTMLElement>('#statement-table tbody');

  function choose(bar: Element): void {
    const row = document.getElementById(`statement-${bar.getAttribute('data-statement')}`);
    for (const other of document.querySelectorAll('rect.on')) other.classList.remove('on');
    bar.classList.add('on');
    if (!detail) return;
    detail.textContent = '';
    const title = document.createElement('div');
    title.textContent = bar.querySelector('title')?.textContent ?? '';
    const sql = document.createElement('code');
    sql.textContent = row?.querySelector('.sql')?.textContent?.slice(0, 600) ?? '';
    detail.append(title, sql);
  }

  function bars(): Element[] {
    return [...(svg?.querySelectorAll('rect[data-statement]') ?? [])];
  }

  lanes?.addEventListener('mouseover', (event) => {
    if (event.target instanceof Element && event.target.hasAttribute('data-statement')) choose(event.target);
  });
  lanes?.addEventListener('focusin', (event) => {
    if (event.target instanceof Element && event.target.hasAttribute('data-statement')) choose(event.target);
  });
  lanes?.addEventListener('click', (event) => {
    const index = event.target instanceof Element ? event.target.getAttribute('data-statement') : null;
    if (index !== null) document.getElementById(`statement-${index}`)?.scrollIntoView({ block: 'center' });
  });
  lanes?.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const all = bars();
    const at = document.activeElement ? all.indexOf(document.activeElement) : -1;
    const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
    if (next instanceof SVGElement) next.focus();
    event.preventDefault();
  });

  let zoom = 1;
  function duration(ms: number): string {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    return ms < 60_000 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 60_000).toFixed(2)} min`;
  }
  function setZoom(next: number): void {
    if (!svg || !lanes) return;
    const middle = (lanes.scrollLeft + lanes.clientWidth / 2) / lanes.scrollWidth;
    zoom = Math.min(4096, Math.max(1, next));
    svg.setAttribute('width', `${zoom * 100}%`);
    lanes.scrollLeft = middle * lanes.scrollWidth - lanes.clientWidth / 2;
    drawTicks();
  }
  /** Only what is in sight: at a high zoom the whole would be thousands of them. */
  function drawTicks(): void {
    const group = document.getElementById('ticks');
    if (!group || !svg || !lanes || zoom === 1) return;
    const total = Number(lanes.dataset.ms);
    const step = 1 / (zoom * TICKS_PER_WIDTH);
    const first = Math.max(0, Math.floor(lanes.scrollLeft / lanes.scrollWidth / step) - TICKS_PER_WIDTH);
    group.textContent = '';
    for (let index = first; index <= first + 3 * TICKS_PER_WIDTH && index * step < 1; index++) {
      const x = `${index * step * 100}%`;
      const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: '0', y2: '100%' }))
        line.setAttribute(name, value);
      const text = document.createElementNS('http://www.w3.org/2000/svg', 'text');
      for (const [name, value] of Object.entries({ x, dx: '3', y: '15' })) text.setAttribute(name, value);
      text.textContent = duration(index * step * total);
      group.append(line, text);
    }
  }
  lanes?.addEventListener('scroll', drawTicks);
  document.getElementById('zoom')?.addEventListener('click', (event) => {
    const factor = event.target instanceof HTMLElement ? Number(event.target.dataset.zoom) : Number.NaN;
    if (!Number.isNaN(factor)) setZoom(factor === 0 ? 1 : zoom * factor);
  });
  lanes?.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      setZoom(zoom * (event.deltaY < 0 ? 1.5 : 1 / 1.5));
    },
    { passive: false },
  );

  function cellValue(row: Element, column: number): string | number {
    const cell = row.children[column];
    const value = cell?.getAttribute('data-value');
    return value === null || value === undefined ? (cell?.textContent ?? '') : Number(value);
  }
  const heads = [...document.querySelectorAll('#statement-table th')];
  heads.forEach((head, column) => {
    head.querySelector('button')?.addEventListener('click', () => {
      const descending = head.getAttribute('aria-sort') !== 'descending';
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      const sorted = [...(rows?.children ?? [])].sort((one, other) => {
        const [a, b] = [cellValue(one, column), cellValue(other, column)];
        const order =
          typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
        return descending ? -order : order;
      });
      rows?.append(...sorted);
    });
  });

  const search = document.getElementById('search');
  search?.addEventListener('input', () => {
    if (!(search instanceof HTMLInputElement)) return;
    const wanted = search.value.toLowerCase();
    let found = 0;
    for (const row of rows?.children ?? []) {
      const shown = (row.textContent ?? '').toLowerCase().includes(wanted);
      if (row instanceof HTMLElement) row.hidden = !shown;
      if (shown) found++;
    }
    const count = document.getElementById('found');
    if (count) count.textContent = `${found} found`;
  });

  addEventListener('beforeprint', () => {
    for (const folded of document.querySelectorAll('details')) folded.open = true;
  });
}

export const SCRIPT = `(${page.toString()})()`;
