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
  return inOptions(options).map(([name]) => name);
}

function inOptions(options: string): [name: string, value: string][] {
  // A backslash keeps a space within a word.
  const words = [...options.matchAll(/(?:\\.|\S)+/g)].map(([word]) => word.replaceAll(/\\(.)/g, '$1'));
  return words.flatMap((word, index): [string, string][] => {
    const text = words[index - 1] === '-c' ? word : /^(?:-c|--)(.+)$/s.exec(word)?.[1];
    const [, name, value] = /^([A-Za-z_][\w.-]*)=(.*)$/s.exec(text ?? '') ?? [];
    return name === undefined ? [] : [[name.toLowerCase().replaceAll('-', '_'), value ?? '']];
  });
}

/** No settings, or those that every client has a value of its own for. */
const NO_SETTINGS: ReadonlySet<string> = new Set([
  ...['user', 'database', 'options', 'replication', 'application_name', 'client_encoding'],
]);

/** Returns the settings that a client asks for when it connects, by name or within `options`. */
export function settingsAtStart(parameters: Parameters): [name: string, value: string][] {
  const given = parameters.filter(([name]) => !NO_SETTINGS.has(name.toLowerCase()));
  return [
    ...inOptions(new Map(parameters).get('options') ?? ''),
    ...given.map(([n, v]) => [n, v] as [string, string]),
  ];
}
