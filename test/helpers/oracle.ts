import { stripVTControlCharacters } from 'node:util';

const SPINNER = /\[[\u2800-\u28ff]\][^[]*/gu;

/**
 * Takes out of a tool's output what differs from run to run: names of databases, ports, times, the pictures of a
 * spinner, and what a URL says of TLS.
 */
export function mask(names: readonly string[]): (output: string) => string {
  return (output) =>
    names
      .reduce((text, name) => text.replaceAll(name, 'DATABASE'), stripVTControlCharacters(output))
      .replaceAll(SPINNER, '')
      .replace(/\d+(\.\d+)?\s?(ms|s|µs)\b/g, 'TIME')
      // Rails fills its lines up, with one sign less if the time has a digit more.
      .replace(/\(TIME\) =+$/gm, '(TIME) =')
      .replace(/\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*/g, 'TIME')
      .replace(/\bat \d\d:\d\d:\d\d\b/g, 'at TIME')
      .replace(/\b(127\.0\.0\.1|localhost):\d+/g, 'SERVER')
      // The proxy speaks plain on this machine, and the URL that leads to it says so.
      .replace(/[?&]sslmode=disable\b/g, '')
      // Two Javas may have the same process id, each in a namespace of its own.
      .replace(/^\[TIME\]\[warning\]\[perf,memops\] Cannot use file .*\n/gm, '');
}
