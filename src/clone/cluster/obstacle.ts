/** The reason why the cluster cannot be copied here; assess() turns it into its result. */
export class CopyObstacle extends Error {
  override readonly name = 'Obstacle';
  /** What would make it possible: an exact statement, command or option. */
  readonly enable: string | undefined;

  constructor(reason: string, enable?: string) {
    super(reason);
    this.enable = enable;
  }
}
