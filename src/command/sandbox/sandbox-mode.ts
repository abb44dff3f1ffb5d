/** `auto`: the strictest way that works here. `required`: the whole sandbox, or no run. `off`: the command is watched. */
export type SandboxMode = 'auto' | 'required' | 'off';
