/** The parts of a name as reports write it, without their quotes. */
export function nameParts(name: string): string[] {
  const parts = name.match(/"(?:[^"]|"")*"|[^."]+/g) ?? [];
  return parts.map((part) => (part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part));
}
