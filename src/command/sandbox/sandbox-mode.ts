/** `required`: the whole sandbox, or no run. `auto`: what costs nothing and is in no command's way. */
export type SandboxMode = 'auto' | 'required' | 'off';
