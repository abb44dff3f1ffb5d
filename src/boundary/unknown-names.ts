/** The ways in which a statement may come to the code behind a name: by any mention, or only by writing to the relation of this name. */
export type Way = 'use' | 'write';

/** Pseudo-name of the things that no name leads to: casts and operator classes of built-in types, which any statement may use. */
export const ANYTHING = 'anything*';
/** Pseudo-name of the expressions in the indexes of any table. */
export const TABLES = 'tables*';
/** Pseudo-name of the triggers of any table. */
export const TRIGGERS = 'triggers*';
/** Pseudo-name of event triggers, which any definition fires. */
export const DEFINITIONS = 'definitions*';

/** Pseudo-name of letters that the server may read otherwise than we do. */
export const LETTERS = 'letters*';
export const IN_OTHER_ENCODING = 'a text with letters beyond ASCII in another encoding than UTF-8';

interface Link {
  readonly of: Way;
  readonly to: string;
  readonly makes: Way;
}

/**
 * The names that lead to code which is not known to be harmless. They have no schemas, and are only ever added: an object that was
 * dropped, renamed, moved to another schema or rolled back may be there all the same, under any of its names.
 */
export class UnknownNames {
  readonly #ways: Readonly<Record<Way, Map<string, string>>> = { use: new Map(), write: new Map() };
  readonly #links = new Map<string, Link[]>();
  #added: string[] = [];

  /** Returns the thing that is not known, in words; undefined if the name leads to nothing of the kind. */
  find(name: string, way: Way): string | undefined {
    return this.#ways[way].get(name);
  }

  /** Adds a name, and all that were linked to it. @param what is behind it, in words. */
  add(name: string, way: Way, what: string): void {
    if (this.#ways[way].has(name)) return;
    this.#ways[way].set(name, what);
    this.#added.push(name);
    for (const { of, to, makes } of this.#links.get(name) ?? []) if (of === way) this.add(to, makes, what);
  }

  /** Notes that `to` leads to `name`, for the time when that is not known to be harmless. */
  link(name: string, of: Way, to: string, makes: Way = of): void {
    if (name === to && of === makes) return;
    const what = this.find(name, of);
    if (what !== undefined) {
      this.add(to, makes, what);
      return;
    }
    const links = this.#links.get(name) ?? [];
    if (links.some((link) => link.of === of && link.to === to && link.makes === makes)) return;
    this.#links.set(name, [...links, { of, to, makes }]);
  }

  /** Returns the names that were added since the last time. */
  takeAdded(): readonly string[] {
    const added = this.#added;
    this.#added = [];
    return added;
  }
}
