import { adviceParts } from '../advice.ts';
import type { Html } from '../html/escape-html.ts';
import type { Tone } from '../text-layout.ts';

/** A form in which a report is read. */
export type Medium = 'text' | 'html' | 'markdown';

export const AS_TEXT: readonly Medium[] = ['text'];
export const ON_PAGES: readonly Medium[] = ['html', 'markdown'];

/** Part of a sentence that a renderer writes in its own way; plain text is escaped by it as well. */
export type PhrasePart =
  | string
  | { readonly text: string; readonly tone: Tone }
  /** Text from outside that is set as code: SQL, or the name of something. */
  | { readonly code: string; readonly as: 'sql' | 'name' }
  /** Leads to a statement of the report where links are possible. `at`: its place in the working folder, if that is known. */
  | { readonly statement: number; readonly at?: string | undefined }
  | typeof ARROW;

/** A sentence, or a part of one. */
export type Phrase = string | readonly PhrasePart[];

export const ARROW = { mark: 'arrow' } as const;

export function sql(text: string): PhrasePart {
  return { code: text, as: 'sql' };
}

/** Name of a table, a database, a variable or a file. */
export function named(text: string): PhrasePart {
  return { code: text, as: 'name' };
}

/** A line of a list. */
export interface Item {
  readonly mark?: ItemMark;
  /** A word that says what the mark means here, such as `broken`. */
  readonly tag?: string;
  readonly text: Phrase;
  readonly notes?: readonly Note[];
  readonly items?: readonly Item[];
  /** One line of text, which is cut if it is too wide. */
  readonly cut?: true;
}

export type ItemMark = 'good' | 'warning' | 'bad' | 'notice';

/** A sentence below an item, and statements below the sentence. */
export interface Note extends Placed {
  readonly label?: string;
  readonly text: Phrase;
  readonly sql?: readonly string[];
  /** One line of text, which is cut if it is too wide. */
  readonly cut?: true;
  /** `sh`: `sql` holds options for a shell. */
  readonly language?: 'sql' | 'sh';
}

/** The labels of what a finding rests on, of what to do about it, and of the option that accepts it, in every format. */
export const EVIDENCE = 'Evidence';
export const ADVICE = 'Fix';
export const ACCEPT = 'Accept';

/** Notes of a finding. The advice is a sentence, and below it one statement a line. */
export function findingNotes(evidence: string, advice: string): Note[] {
  const { advice: sentence, sql } = adviceParts(advice);
  return [
    ...(evidence === '' ? [] : [{ label: EVIDENCE, text: evidence }]),
    ...(advice === '' ? [] : [{ label: ADVICE, text: sentence, sql }]),
  ];
}

/** Something that is not shown everywhere. */
interface Placed {
  /** Absent: everywhere. */
  readonly shownIn?: readonly Medium[];
}

/** A label, its value, and where it is shown if not everywhere. Of facts in a row, the first shows a label that they share. */
export type Fact = readonly [label: string, value: Phrase, shownIn?: readonly Medium[] | undefined];
/** null: there is no such fact. */
export type PerhapsFact = Fact | readonly [label: string, value: null | undefined, ...rest: unknown[]];

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

/**
 * Text of a cell, and bars that are drawn beside it where that is possible: `share` is the value's part of the largest one. Bars of values to
 * compare with (`before`) are paler.
 */
export type Cell =
  | Phrase
  | {
      readonly text: Phrase;
      readonly bars: readonly { readonly share: number; readonly before?: boolean }[];
    };

export type Block = Placed &
  (
    | {
        readonly kind: 'items';
        readonly items: readonly Item[];
        /** Number of items that are listed in text. */
        readonly listed?: number;
        /** The items, in "and 3 more broken". */
        readonly more?: string;
      }
    | { readonly kind: 'facts'; readonly facts: readonly Fact[] }
    | {
        readonly kind: 'table';
        readonly columns: readonly Column[];
        readonly rows: readonly (readonly Cell[])[];
        readonly listed?: number;
        /** The rows, in "and 3 more changes". */
        readonly more?: string;
      }
    /** SQL of several lines. */
    | { readonly kind: 'script'; readonly sql: string; readonly listed?: number }
    /** Lines that begin with `+`, `-` or `!`, and have the colours of these. */
    | { readonly kind: 'diff'; readonly lines: readonly string[] }
    | { readonly kind: 'paragraph'; readonly text: Phrase }
    /** Content that only a page can show: a figure, or a table that can be sorted. */
    | { readonly kind: 'drawing'; readonly draw: () => Html }
  );

export type ItemList = Extract<Block, { kind: 'items' }>;
export type FactList = Extract<Block, { kind: 'facts' }>;
export type Table = Extract<Block, { kind: 'table' }>;
export type Paragraph = Extract<Block, { kind: 'paragraph' }>;

export function drawing(draw: () => Html): Block {
  return { kind: 'drawing', draw, shownIn: ['html'] };
}

/** A section of a report as data. Renderers know the kinds of blocks, and no section. */
export interface Section extends Placed {
  /** Unique in the report: the anchor of the section. */
  readonly id: string;
  /** Empty: its blocks need none. */
  readonly title: string;
  /** Words beside the title. */
  readonly summary?: Phrase;
  /** Words at the right end of the title, in text. */
  readonly aside?: Phrase;
  /** Given for the outcome of the run, which stands at the top, and is neither folded nor left out. */
  readonly outcome?: Tone;
  /** Where the section is folded behind its title; text at a terminal never is. */
  readonly folds: 'never' | 'in-comment' | 'always';
  /** Blocks of the least important sections are left out first where a report must be short: 1 to 10. */
  readonly importance: number;
  readonly blocks: readonly Block[];
  /** Sections below this one. */
  readonly parts?: readonly Section[];
}

export function factList(facts: readonly PerhapsFact[]): FactList {
  return {
    kind: 'facts',
    facts: facts.filter((fact): fact is Fact => fact[1] !== null && fact[1] !== undefined),
  };
}

/** Items that are sentences without notes. */
export function sentences(texts: readonly Phrase[], more: Partial<Omit<ItemList, 'kind'>> = {}): ItemList {
  return { kind: 'items', items: texts.map((text) => ({ text })), ...more };
}

/** Leaves out what the medium does not show, blocks without content, and sections with nothing but a title. */
function sectionFor(medium: Medium, section: Section): Section | undefined {
  if (!isShownIn(medium, section)) return undefined;
  const blocks = section.blocks
    .filter((block) => isShownIn(medium, block))
    .map((block) => blockFor(medium, block))
    .filter((block) => !isEmpty(block));
  const parts = sectionsFor(medium, section.parts ?? []);
  if (blocks.length + parts.length === 0 && section.summary === undefined) return undefined;
  return { ...section, blocks, parts };
}

export function sectionsFor(medium: Medium, sections: readonly Section[]): Section[] {
  return sections.flatMap((section) => sectionFor(medium, section) ?? []);
}

function isShownIn(medium: Medium, { shownIn }: Placed): boolean {
  return shownIn === undefined || shownIn.includes(medium);
}

function blockFor(medium: Medium, block: Block): Block {
  if (block.kind === 'items') return { ...block, items: block.items.map((item) => itemFor(medium, item)) };
  if (block.kind !== 'facts') return block;
  const shown = block.facts.filter(([, , shownIn]) => shownIn === undefined || shownIn.includes(medium));
  const facts = shown.map(([label, value], at): Fact => [shown[at - 1]?.[0] === label ? '' : label, value]);
  return { ...block, facts };
}

function itemFor(medium: Medium, item: Item): Item {
  const { notes = [], items = [] } = item;
  return {
    ...item,
    notes: notes.filter((note) => isShownIn(medium, note)),
    items: items.map((each) => itemFor(medium, each)),
  };
}

function isEmpty(block: Block): boolean {
  switch (block.kind) {
    case 'items':
      return block.items.length === 0;
    case 'facts':
      return block.facts.length === 0;
    case 'table':
      return block.rows.length === 0;
    case 'script':
      return block.sql === '';
    case 'diff':
      return block.lines.length === 0;
    case 'paragraph':
    case 'drawing':
      return false;
  }
}

export function phraseParts(phrase: Phrase): readonly PhrasePart[] {
  return typeof phrase === 'string' ? [phrase] : phrase;
}

/** Splits what a cell shows from the bars beside it. */
export function cellParts(cell: Cell): Exclude<Cell, Phrase> {
  return typeof cell === 'object' && 'bars' in cell ? cell : { text: cell, bars: [] };
}
