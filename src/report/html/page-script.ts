/*
 * What the page does beyond being read. The scripts are plain text, since they run in the browser and never here; they use
 * neither backticks nor backslashes. Without them the page shows the same, unsorted and not zoomed.
 */

/** Shows the statement of a bar that is pointed at, focused or clicked; the arrow keys walk through the bars. */
const CHOOSE = `
const lanes = document.getElementById('lanes');
const svg = lanes && lanes.querySelector('svg');

function choose(event) {
  const bar = event.target;
  if (!(bar instanceof Element) || !bar.hasAttribute('data-statement')) return;
  for (const other of document.querySelectorAll('rect.on')) other.classList.remove('on');
  bar.classList.add('on');
  const row = document.getElementById('statement-' + bar.getAttribute('data-statement'));
  const title = document.createElement('div');
  title.textContent = bar.querySelector('title')?.textContent ?? '';
  const sql = document.createElement('code');
  sql.textContent = row?.querySelector('.sql')?.textContent.slice(0, 600) ?? '';
  document.getElementById('detail')?.replaceChildren(title, sql);
}

function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  const bars = [...svg.querySelectorAll('rect[data-statement]')];
  const at = bars.indexOf(document.activeElement);
  bars[Math.min(bars.length - 1, Math.max(0, at + step))]?.focus();
  event.preventDefault();
}

lanes?.addEventListener('mouseover', choose);
lanes?.addEventListener('focusin', choose);
lanes?.addEventListener('keydown', walk);
lanes?.addEventListener('click', (event) => {
  const index = event.target instanceof Element ? event.target.getAttribute('data-statement') : null;
  if (index !== null) document.getElementById('statement-' + index)?.scrollIntoView({ block: 'center' });
});
`;

/** Zooms the timeline by the buttons, or by the wheel with Ctrl, around the middle of what is in sight. */
const ZOOM = `
const LABEL_PX = 68;
let zoom = 1;

function duration(ms) {
  if (ms < 1000) return Math.round(ms) + ' ms';
  return ms < 60000 ? (ms / 1000).toFixed(2) + ' s' : (ms / 60000).toFixed(2) + ' min';
}

function svgElement(name, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// Draws only the ticks that are in sight: at a high zoom the whole would be thousands.
function drawTicks() {
  const group = document.getElementById('ticks');
  if (!group) return;
  const perWidth = Math.max(2, Math.min(10, Math.floor(lanes.clientWidth / LABEL_PX)));
  const total = Number(lanes.dataset.ms);
  const step = 1 / (zoom * perWidth);
  const first = Math.max(0, Math.floor(lanes.scrollLeft / lanes.scrollWidth / step) - perWidth);
  group.textContent = '';
  for (let index = first; index <= first + 3 * perWidth && index * step < 1; index++) {
    const x = index * step * 100 + '%';
    const text = svgElement('text', { x: x, dx: '3', y: '15' });
    text.textContent = duration(index * step * total);
    group.append(svgElement('line', { x1: x, x2: x, y1: '0', y2: '100%' }), text);
  }
}

function setZoom(next) {
  if (!svg) return;
  const middle = (lanes.scrollLeft + lanes.clientWidth / 2) / lanes.scrollWidth;
  zoom = Math.min(4096, Math.max(1, next));
  svg.setAttribute('width', zoom * 100 + '%');
  lanes.scrollLeft = middle * lanes.scrollWidth - lanes.clientWidth / 2;
  drawTicks();
}

if (lanes) {
  lanes.addEventListener('scroll', drawTicks);
  addEventListener('resize', drawTicks);
  drawTicks();
}
document.getElementById('zoom')?.addEventListener('click', (event) => {
  const factor = Number(event.target.dataset.zoom);
  if (!Number.isNaN(factor)) setZoom(factor === 0 ? 1 : zoom * factor);
});
lanes?.addEventListener('wheel', (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  setZoom(zoom * (event.deltaY < 0 ? 1.5 : 1 / 1.5));
}, { passive: false });
`;

/** Sorts the statements by a column and searches in them. */
const TABLE = `
const rows = document.querySelector('#statement-table tbody');
const heads = [...document.querySelectorAll('#statement-table th')];

function cellValue(row, column) {
  const cell = row.children[column];
  return cell.hasAttribute('data-value') ? Number(cell.getAttribute('data-value')) : cell.textContent;
}

function compare(a, b) {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

heads.forEach((head, column) => {
  head.querySelector('button').addEventListener('click', () => {
    const descending = head.getAttribute('aria-sort') !== 'descending';
    for (const other of heads) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    const sorted = [...rows.children].sort((one, other) => {
      const order = compare(cellValue(one, column), cellValue(other, column));
      return descending ? -order : order;
    });
    rows.append(...sorted);
  });
});

const search = document.getElementById('search');
search?.addEventListener('input', () => {
  const wanted = search.value.toLowerCase();
  let found = 0;
  for (const row of rows.children) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
    if (!row.hidden) found++;
  }
  document.getElementById('found').textContent = found + ' found';
});
`;

/** Copies the text beside a button. */
const COPY = `
for (const button of document.querySelectorAll('.copy button')) {
  button.hidden = !navigator.clipboard;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = 'Copied';
  });
}
`;

/** Unfolds everything for paper. */
const PRINT = `
addEventListener('beforeprint', () => {
  for (const folded of document.querySelectorAll('details')) folded.open = true;
});
`;

export const SCRIPT = `(() => {'use strict';${CHOOSE}${ZOOM}${TABLE}${COPY}${PRINT}})()`;
