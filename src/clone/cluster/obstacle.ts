/** Why the cluster cannot be copied here, found by one of the checks; assess() makes an answer of it. */
export class CopyObstacle extends Error {
  override readonly name = 'Obstacle';
  /** What would make it possible: an exact statement, command or option. */
  readonly enable: string | undefined;

  constructor(reason: string, enable?: string) {
    super(reason);
    this.enable = enable;
  }
}
