/** Colours that the colour-blind can tell apart (after Okabe and Ito), paler for weaker modes; labels say the same. */
export const MODE_COLOURS: Readonly<Record<string, string>> = {
  'ACCESS EXCLUSIVE': '#d55e00',
  EXCLUSIVE: '#e69f00',
  'SHARE ROW EXCLUSIVE': '#cc79a7',
  SHARE: '#f0c419',
  'SHARE UPDATE EXCLUSIVE': '#0072b2',
  'ROW EXCLUSIVE': '#56b4e9',
  'ROW SHARE': '#8fbcdb',
  'ACCESS SHARE': '#a9b7c6',
};

export const STYLE = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--box:#f6f8fa;--good:#1a7f37;--bad:#c4281c;
--warn:#9a6700;--accent:#0072b2;--bar:#8c959f;--fail:#c4281c;--gone:#ffebe9;--made:#dafbe1;--goner:#ffc1bc;--mader:#9be9ac}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9aa4af;--line:#30363d;--box:#161b22;--good:#4ac26b;
--bad:#ff7b72;--warn:#e3b341;--accent:#56b4e9;--bar:#6e7681;--fail:#ff7b72;
--gone:#3a1a1d;--made:#12301c;--goner:#7a2b2b;--mader:#1d6a35}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem 1.25rem 4rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
a{color:var(--accent)}
h1{font-size:1.5rem;line-height:1.3;margin:.5rem 0}
h2{font-size:1.15rem;margin:2rem 0 .5rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1rem 0 .25rem}
.verdict{margin:1.25rem 0 1rem;border-left:.4rem solid var(--good);padding:.25rem 1rem;background:var(--box);border-radius:.25rem}
.verdict h2{border:0;margin:.25rem 0}.verdict.bad{border-color:var(--bad)}
:is(h1,h2){overflow-wrap:anywhere}.why{color:var(--fg);font-size:1.05rem;font-weight:500}
.verdict.bad .outcome,.tag.bad{color:var(--bad)}.verdict.good .outcome{color:var(--good)}
.verdict.alarm :is(dl.facts *,.tag,.finding,.why){color:inherit;background:none;border-color:currentColor}
.alarm,.verdict.alarm{background:var(--bad);color:var(--bg);padding:.5rem 1rem;border-radius:.25rem;border:0;font-weight:600}
.dim{color:var(--dim)}.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code,pre,.sql{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em}
code{overflow-wrap:anywhere}td code{display:inline-block;min-width:9rem}
pre{background:var(--box);border:1px solid var(--line);border-radius:.25rem;padding:.75rem;overflow-x:auto;white-space:pre-wrap;
overflow-wrap:anywhere;margin:.5rem 0}
.copy{position:relative}.copy button{position:absolute;top:.3rem;right:.3rem;font:inherit;font-size:.8rem;color:inherit;
background:var(--bg);border:1px solid var(--line);border-radius:.25rem;cursor:pointer}.copy pre{padding-right:4.5rem}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:1rem 0}
dl.facts dt{color:var(--dim)}dl.facts dd{margin:0;grid-column:2;color:var(--fg);overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--dim);font-weight:600;white-space:nowrap}
th button{all:unset;cursor:pointer;color:inherit;font:inherit}th button:focus-visible{outline:2px solid var(--accent)}
th[aria-sort=ascending] button::after{content:" ▲"}th[aria-sort=descending] button::after{content:" ▼"}
td.sql{min-width:18rem;white-space:pre-wrap;overflow-wrap:anywhere}
tr.failed td{color:var(--fail)}td>.warning{color:var(--warn)}
.hazard,.finding{border:1px solid var(--line);border-left:.4rem solid var(--bar);border-radius:.25rem;padding:.5rem 1rem;margin:.75rem 0}
.finding{color:var(--fg)}ul:has(>.finding){padding:0;list-style:none}.finding>code:first-of-type{font-weight:600}
.hazard.error,.finding.bad{border-left-color:var(--bad)}.hazard.warning,.finding.warning{border-left-color:var(--warn)}
.together{font-weight:600;margin:1rem 0 0}
.hazard h3{margin:.1rem 0}.hazard p{margin:.25rem 0}
.tag{display:inline-block;padding:0 .5em;border-radius:1em;border:1px solid currentColor;font-size:.8rem;font-weight:600}
.tag.error{color:var(--bad)}.tag.warning{color:var(--warn)}.tag.good{color:var(--good)}
.diff{display:grid;grid-template-columns:1fr 1fr;gap:.25rem .75rem}
.diff pre{margin:0}.diff .empty{color:var(--dim);border-style:dashed}
.diff .gone{border-left:.25rem solid var(--bad)}.diff .made{border-left:.25rem solid var(--good)}
.object .diff,.sides{margin:.35rem 0 1rem}
.sides{display:grid;grid-auto-flow:column;grid-template:repeat(var(--rows),auto)/1fr 1fr;column-gap:.75rem}
.side{display:contents;font:.8rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.side>*{padding:0 .5rem 0 1.4rem;background:var(--box);white-space:pre-wrap;overflow-wrap:anywhere;min-height:1.45em;
position:relative;text-decoration:none;break-inside:avoid}
.side>.title{background:none;padding:0;font:.9rem/1.5 system-ui,sans-serif}
.side>del{background:var(--gone)}.side>ins{background:var(--made)}
.side>del::before,.side>ins::before{content:"+";position:absolute;left:.5rem}.side>del::before{content:"−"}
.side b{font-weight:inherit;border-radius:.15em;background:var(--mader)}.side del b{background:var(--goner)}
.bar{display:inline-block;height:.7em;background:var(--accent);border-radius:.1em;min-width:1px;vertical-align:baseline}
.bar.before{background:var(--bar)}
details{margin:.5rem 0}summary{cursor:pointer}summary:focus-visible{outline:2px solid var(--accent)}
.tools{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center;margin:.5rem 0}
.tools button,.tools input{font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);border-radius:.25rem;
padding:.2rem .6rem}
.timeline{display:grid;grid-template-columns:minmax(6rem,16rem) 1fr;border:1px solid var(--line);border-radius:.25rem}
.names{border-right:1px solid var(--line);overflow:hidden}
.names div{height:24px;line-height:24px;padding:0 .5rem;font-size:.8rem;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.scroll{overflow-x:auto;position:relative}
.scroll svg{display:block;min-width:100%}
.scroll svg text{fill:var(--dim);font-size:11px}
.scroll rect.lane{fill:transparent;stroke:none}.scroll line{stroke:var(--line)}
.scroll rect[data-statement]{cursor:pointer}
.scroll rect:focus{outline:none;stroke:var(--fg);stroke-width:2}
.scroll rect.on{stroke:var(--fg);stroke-width:2}
.statement{fill:var(--accent)}.statement.failed{fill:var(--fail)}.transaction{fill:var(--bar);opacity:.45}
figure.load{margin:.5rem 0}figure.load .names div.chart{height:90px;line-height:1.3;padding-top:.4rem;box-sizing:border-box;white-space:normal}
figure.load svg{border-bottom:1px solid var(--line);box-sizing:border-box}
.detail{min-height:4.5rem;border:1px solid var(--line);border-top:0;padding:.5rem .75rem;font-size:.9rem}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.85rem;margin:.5rem 0;padding:0;list-style:none}
.legend i{display:inline-block;width:.9em;height:.9em;border-radius:.15em;margin-right:.35em;vertical-align:-.1em}
@media (max-width:40rem){body{padding:.5rem .75rem 3rem}.timeline{grid-template-columns:6rem 1fr}.diff{grid-template-columns:1fr}
.sides,.side{display:block}.side i{display:none}.side{margin-bottom:.5rem}.side>*{display:block}
dl.facts{grid-template-columns:1fr;gap:0}dl.facts dt{margin-top:.5rem}dl.facts dd{grid-column:1}
.wide table{width:max-content;min-width:100%}.wide td{max-width:28rem}.wide td.sql{max-width:18rem}
main{display:flex;flex-direction:column}main>*{order:2}main>[aria-label]{order:0}main>[aria-labelledby=answers]{order:1}
[aria-labelledby=answers] dl.facts{grid-template-columns:max-content 1fr;gap:.1rem .75rem}[aria-labelledby=answers] dl.facts dd{grid-column:2}
[aria-labelledby=answers] dl.facts dt{margin:0}}
@media print{body{max-width:none;font-size:11px}.tools,.copy button{display:none}.hazard,.finding,pre,tr{break-inside:avoid}
.side>*,.diff pre{print-color-adjust:exact}.wide,.scroll{overflow:visible}}
`;
