import type { Facts } from '../facts.ts';

/** The facts, arranged for questions. */
export class Ground {
  readonly facts: Facts;

  constructor(facts: Facts) {
    this.facts = facts;
  }
}
