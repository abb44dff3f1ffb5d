import { int32, message } from '../../src/wire/messages.ts';

/** Messages of the extended protocol, as a driver writes them. */
export function parseFrame(name: string, sql: string): Buffer {
  return message('P'.charCodeAt(0), `${name}\0${sql}\0`, Buffer.alloc(2));
}

/** Bind without parameters, and Describe of the portal. */
export function bindFrames(portal: string, statement: string): Buffer[] {
  return [
    message('B'.charCodeAt(0), `${portal}\0${statement}\0`, Buffer.alloc(6)),
    message('D'.charCodeAt(0), `P${portal}\0`),
  ];
}

export function executeFrame(portal: string, rows: number): Buffer {
  return message('E'.charCodeAt(0), `${portal}\0`, int32(rows));
}

export function syncFrame(): Buffer {
  return message('S'.charCodeAt(0));
}
