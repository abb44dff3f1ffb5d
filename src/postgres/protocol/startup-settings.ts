type Parameters = readonly (readonly [name: string, value: string])[];

/**
 * Adds settings to start-up parameters, except those that the client names itself, by name or within `options`.
 * @returns also the names of those that were added.
 */
export function withSettings(
  parameters: Parameters,
  settings: Readonly<Record<string, string>>,
): { parameters: Parameters; given: ReadonlySet<string> } {
  const named = new Set(parameters.map(([name]) => name.toLowerCase()));
  for (const name of namedInOptions(new Map(parameters).get('options') ?? '')) named.add(name);
  const added = Object.entries(settings).filter(([name]) => !named.has(name));
  return { parameters: [...parameters, ...added], given: new Set(added.map(([name]) => name)) };
}

/** `-c lock_timeout=1s`, `-clock_timeout=1s`, `--lock-timeout=1s`: the server takes a dash for an underscore. */
function namedInOptions(options: string): string[] {
  return [...options.matchAll(/(?:^|\s)(?:-c\s*|--)([A-Za-z_][\w.-]*)\s*=/g)].map(([, name = '']) =>
    name.toLowerCase().replaceAll('-', '_'),
  );
}
