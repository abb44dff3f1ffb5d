import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Intent } from '../proxy/observed.ts';
import { unknownElsewhere, unknownInStatement } from './harmless-statement.ts';
import type { UnknownCode } from './read-unknown-code.ts';
import { isOtherEncoding, settingIfUnknown } from './statement-parts.ts';
import { IN_OTHER_ENCODING, LETTERS } from './unknown-names.ts';

/** A migration with more or longer texts that the server cannot read either is not looked for. */
const MOST_UNREAD = 100;
const LONGEST_UNREAD = 16_384;

/**
 * Judges whether all that runs is known to stay within the clone, if the clone's server would not keep it there. It refuses nothing:
 * after unknown code the target is not proved to be unchanged.
 */
export class HarmlessJudge {
  /** The first thing that is not known to be harmless, in words. */
  notKnown: string | undefined;
  /** Texts that the parser could not read. The server cannot read most of them either. */
  readonly unreadTexts = new Set<string>();
  readonly #unknown: UnknownCode;
  readonly #findUses: (added: readonly string[]) => Promise<void>;

  /** @param findUses adds what comes to these names, which the command has made or replaced. */
  constructor(unknown: UnknownCode, findUses: (added: readonly string[]) => Promise<void>) {
    this.#unknown = unknown;
    this.#findUses = findUses;
  }

  /** Code that is not known to be harmless acts with rights that the role lacks. */
  get borrowsRights(): boolean {
    return this.#unknown.borrowsRights;
  }

  note(what: string | undefined): void {
    this.notKnown ??= what;
  }

  /** Judges a statement. @param isOwn it is in the clone, or in a database that the command made. */
  async judge({ sql, parsed }: Intent, isOwn: boolean): Promise<void> {
    if (this.notKnown !== undefined) return;
    if (!parsed) {
      if (this.unreadTexts.size === MOST_UNREAD || sql.length > LONGEST_UNREAD)
        this.note('a text that could not be read');
      else if (holdsCode(sql)) this.unreadTexts.add(sql);
      return;
    }
    const { names } = this.#unknown;
    const added = names.takeAdded();
    if (added.length > 0) await this.#findUses(added);
    this.note(
      isOwn ? await unknownInStatement(sql, parsed.node, names) : unknownElsewhere(parsed.node, names),
    );
  }

  /** Judges a call of a function by its OID: of the user's it is not known which one that is by now. */
  judgeCall(oid: number): void {
    if (oid >= FIRST_USER_OID || this.#unknown.builtIn.has(oid)) this.note('a function called by its OID');
  }

  judgeSettings(settings: readonly (readonly [name: string, value: string])[]): void {
    for (const [name, value] of settings) {
      this.note(settingIfUnknown(name, value));
      if (isOtherEncoding(name, value)) this.#unknown.names.add(LETTERS, 'use', IN_OTHER_ENCODING);
    }
  }
}

/** Tells if a text has more than comments and semicolons. */
function holdsCode(text: string): boolean {
  return text.replace(/--[^\n]*|\/\*[\s\S]*?\*\/|[\s;]/g, '') !== '';
}
