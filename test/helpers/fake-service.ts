import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, createServer as createRelay, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll } from 'vitest';
import { messageOf } from '../../src/errors.ts';
import { identifier } from '../../src/postgres/sql/quote.ts';
import { withClient } from './client.ts';
import { made, type TemporaryDatabase, temporaryDatabase } from './database.ts';
import { serverUrl } from './servers.ts';

const run = promisify(execFile);

/** Something at the fake: a branch, an instance. A clone has a database on a real server. */
export interface Thing {
  readonly id: string;
  name: string;
  /** How many further lists say that it is not ready yet. */
  notReadyFor: number;
  readonly createdAt: string;
  readonly labels: Record<string, string>;
  readonly host: string;
  readonly port: number;
  /** Null also for a clone that is never used. */
  readonly database: TemporaryDatabase | null;
  /** Left out until it is upgraded. */
  readonly upgrade?: { readonly fails: boolean; notReadyFor: number };
  readonly isForeign: boolean;
}

/** What goes wrong. */
export interface Faults {
  create?: 'fails' | 'hangs';
  /** Lists that call a clone not ready. */
  slow?: number;
  /** So many calls that destroy fail. */
  destroy?: number;
  /** The service refuses to upgrade a clone, or begins and gives up. */
  upgrade?: 'refused' | 'fails';
  /** Lists that call a clone's upgrade not done. */
  slowUpgrade?: number;
  /** This call, counted from 1 among those that change something, has its effect and never ends. */
  hangsAt?: number;
  expired?: boolean;
  grown?: boolean;
}

/** The kind of a call, for the faults. `change` is a step between the creation and the removal. */
export type CallKind = 'create' | 'change' | 'destroy' | 'list' | 'other';
const CHANGES: readonly CallKind[] = ['create', 'change', 'destroy'];

/** A service that is faked in the test's own process. A shim in PATH hands it each call, or the real program each request. */
export interface FakeProgram {
  readonly program: string;
  /** The real command line. The words of a call are then the method, the path, the query and the body of a request. */
  readonly real?: RealProgram | undefined;
  /**
   * Without it, for a program that is not always there: sends the requests that the program would send for a call.
   * Returns what the program then prints.
   */
  readonly requests?: (args: readonly string[], send: SendRequest) => Promise<unknown>;
  kindOf(args: readonly string[]): CallKind;
  /** Returns what it prints: a text, or a value that is printed as JSON. Throws what it says when it fails. */
  answer(args: readonly string[], fake: FakeService, input: string): unknown;
  /** Tells the calls that print their answer and then run on until they are killed. */
  readonly runsOn?: (args: readonly string[]) => boolean;
  /** Its addresses have no port: a relay stands at the usual one. */
  readonly fixedPort?: true;
  /** What the service says when the login has expired. */
  readonly expired: string;
  /** What the shim prints to standard output when a call fails, instead of the message to standard error. */
  readonly printedFailure?: (message: string) => object;
  /** For a fake that holds the things itself; those of FakeService are then a copy. */
  readonly store?: {
    /** Makes the things of others, and removes what is too much. */
    fill(things: readonly Thing[]): Promise<void>;
    names(): Promise<string[]>;
  };
}

/** Sends a request to the fake, and returns the body of the answer. */
export type SendRequest = (method: string, path: string, body?: object) => Promise<Record<string, unknown>>;

export interface RealProgram {
  readonly installed: { readonly folder: string } | { readonly missing: string };
  /** The file in that folder, and the first words of each call. */
  command(url: string): readonly string[];
  /** Variables that lead it to the fake. */
  variables(url: string): Readonly<Record<string, string>>;
  /** A file in YAML that leads it there: its text, and the variable that names it. */
  readonly settings?: { readonly variable: string; text(url: string): string };
  /** The body of an answer that refuses something. */
  refusal(message: string): string;
  /** The status of an answer to this method, if it is not always 200. */
  readonly statusOf?: (method: string) => number;
}

const CLONE_VERSIONS = [17, 16] as const;
/** Lists until an upgrade is done: it is ordered in the first one, and runs in the second. */
const QUICK_UPGRADE = 3;
/** What takes more lists than this is never used, and needs no database. */
const LONGEST_WAIT = 100;

export class FakeService {
  readonly #fake: FakeProgram;
  readonly #calls: { kind: CallKind; args: readonly string[] }[] = [];
  #changes = 0;
  #hangs = false;
  things: Thing[] = [];
  faults: Faults = {};
  target: TemporaryDatabase | undefined;
  /** The schema and rows of a clone. */
  sql = SCHEMA;
  #number = 0;
  readonly #relays: Server[] = [];

  constructor(fake: FakeProgram) {
    this.#fake = fake;
  }

  /** Why the real program cannot be had; null if it is there, or is not needed. */
  get missing(): string | null {
    const { installed } = this.#fake.real ?? {};
    return installed && 'missing' in installed ? installed.missing : null;
  }

  /** Forgets all, as before the first call; `foreign` things of others are there. */
  reset(target: TemporaryDatabase, foreign: number): void {
    this.target = target;
    this.fail({});
    this.#calls.length = 0;
    this.things = [];
    this.sql = SCHEMA;
    for (let count = 0; count < foreign; count++) this.others(`feature-${count}`);
  }

  /** From now on this goes wrong, and nothing else. */
  fail(faults: Faults): void {
    this.faults = faults;
    this.#changes = 0;
    this.#hangs = false;
  }

  /** The call that `hangsAt` names has had its effect. */
  get hangs(): boolean {
    return this.#hangs;
  }

  calls(kind: CallKind): (readonly string[])[] {
    return this.#calls.filter((call) => call.kind === kind).map(({ args }) => args);
  }

  /** How many lists were asked for since something was created. */
  polls(): number {
    const kinds = this.#calls.map(({ kind }) => kind);
    const created = kinds.lastIndexOf('create');
    return created === -1 ? 0 : kinds.slice(created).filter((kind) => kind === 'list').length;
  }

  /** Something that belongs to somebody else. */
  others(name: string, labels: Record<string, string> = {}): Thing {
    const thing: Thing = {
      id: `id-${++this.#number}`,
      name,
      notReadyFor: 0,
      createdAt: new Date().toISOString(),
      labels,
      host: 'db.example.com',
      port: 5432,
      database: null,
      isForeign: true,
    };
    this.things.push(thing);
    return thing;
  }

  /** Makes a clone of the target, with its name, on another server. */
  async create(name: string, labels: Record<string, string> = {}): Promise<Thing> {
    const { target, faults } = this;
    if (target === undefined) throw new Error('the test has not named a target');
    if (faults.create === 'hangs' || (faults.slow ?? 0) > LONGEST_WAIT) {
      const unused = { ...this.others(name, labels), isForeign: false };
      unused.notReadyFor = Number.POSITIVE_INFINITY;
      this.things.splice(this.things.length - 1, 1, unused);
      return unused;
    }
    const used = this.things.map(({ database }) => database?.version);
    const version = CLONE_VERSIONS.find((each) => !used.includes(each));
    if (version === undefined) throw new Error('no server is left for another clone');
    const database = await temporaryDatabase(version, { name: target.name, sql: this.sql });
    const { hostname, port } = new URL(database.url);
    const host = this.#fake.fixedPort ? await this.#relay(Number(port)) : hostname;
    const thing = { ...this.others(name, labels), isForeign: false, host, port: Number(port), database };
    thing.notReadyFor = faults.slow ?? 0;
    this.things.splice(this.things.length - 1, 1, thing);
    return thing;
  }

  async destroy(found: (thing: Thing) => boolean): Promise<Thing> {
    const thing = this.things.find(found);
    if (thing === undefined) throw new Error('not found');
    this.things = this.things.filter((each) => each !== thing);
    await dropDatabase(thing);
    return thing;
  }

  /**
   * Upgrades a clone as a service does: from the list that calls it done on, it is a newer server, to which its database was copied.
   * @param programs folder of pg_dump and psql of 18.
   */
  async upgrade(name: string, programs: string): Promise<void> {
    const { upgrade: fault, slowUpgrade = QUICK_UPGRADE } = this.faults;
    if (fault === 'refused') throw new Error('Cannot upgrade the clone: token=abc123');
    const at = this.things.findIndex((each) => each.name === name && !each.isForeign);
    const thing = this.things[at];
    if (thing?.database == null) throw new Error(`${name} is no clone that can be upgraded`);
    const upgrade = { fails: fault === 'fails', notReadyFor: slowUpgrade };
    this.things[at] = { ...thing, upgrade };
    if (upgrade.fails || slowUpgrade > LONGEST_WAIT) return;
    const database = await temporaryDatabase(18, { name: thing.database.name });
    const copy = `"$0/pg_dump" "$1" | "$0/psql" --quiet --no-psqlrc --set ON_ERROR_STOP=1 "$2"`;
    await run('bash', ['-o', 'pipefail', '-c', copy, programs, thing.database.url, database.url]);
    await dropDatabase(thing);
    const { hostname: host, port } = new URL(database.url);
    // Another one may have been removed meanwhile.
    const now = this.things.findIndex((each) => each.name === name && !each.isForeign);
    this.things[now] = { ...thing, upgrade, database, host, port: Number(port) };
  }

  /** State of a clone's upgrade, as the next list has it: `ordered` comes first. */
  upgradeState({ upgrade }: Thing): 'none' | 'ordered' | 'running' | 'failed' | 'done' {
    if (upgrade === undefined) return 'none';
    const isFirst = upgrade.notReadyFor === (this.faults.slowUpgrade ?? QUICK_UPGRADE);
    upgrade.notReadyFor = Math.max(0, upgrade.notReadyFor - 1);
    if (isFirst) return 'ordered';
    if (upgrade.notReadyFor > 0) return 'running';
    return upgrade.fails ? 'failed' : 'done';
  }

  /** An address of this machine at which a server with another port answers on the usual one. */
  async #relay(port: number): Promise<string> {
    const relay = createRelay((socket) => {
      const upstream = connect(port, '127.0.0.1');
      socket.pipe(upstream).pipe(socket);
      for (const each of [socket, upstream]) each.on('error', () => each.destroy());
    });
    const host = `127.${1 + (process.pid % 250)}.${1 + this.#relays.length}.7`;
    await new Promise<void>((resolve) => relay.listen(5432, host, resolve));
    this.#relays.push(relay);
    return host;
  }

  close(): void {
    for (const relay of this.#relays) relay.close();
  }

  /** Tells whether it is ready, as the next list has it. */
  isReady(thing: Thing): boolean {
    thing.notReadyFor = Math.max(0, thing.notReadyFor - 1);
    return thing.notReadyFor === 0;
  }

  /** Answers one call of the program. */
  async call(args: readonly string[], input: string) {
    const { faults } = this;
    const kind = this.#fake.kindOf(args);
    this.#calls.push({ kind, args });
    const { printedFailure } = this.#fake;
    const failed = (message: string, status = 400) => ({
      stdout: printedFailure ? JSON.stringify(printedFailure(message), undefined, 2) : '',
      stderr: printedFailure ? '' : message,
      exitCode: 1,
      status,
      runsOn: false,
    });
    if (faults.expired) return failed(this.#fake.expired, 401);
    if (kind === 'create' && faults.create === 'fails') return failed('quota exceeded: token=abc123');
    if (kind === 'destroy' && (faults.destroy ?? 0) > 0) {
      faults.destroy = (faults.destroy ?? 0) - 1;
      return failed('503 Service Unavailable');
    }
    try {
      const answer = await this.#fake.answer(args, this, input);
      if (CHANGES.includes(kind) && ++this.#changes === faults.hangsAt) this.#hangs = true;
      if (this.#hangs || (kind === 'create' && faults.create === 'hangs'))
        await delay(600_000, undefined, { ref: false });
      const runsOn = this.#fake.runsOn?.(args) ?? false;
      return { stdout: this.#printed(answer), stderr: '', exitCode: 0, status: 200, runsOn };
    } catch (error) {
      return failed(messageOf(error));
    }
  }

  /** Answers one call of a shim. */
  async callShim(args: readonly string[], input: string) {
    const { requests } = this.#fake;
    if (requests === undefined) return this.call(args, input);
    const send: SendRequest = async (method, place, body = {}) => {
      const { exitCode, stdout, stderr } = await this.call([method, place, '', JSON.stringify(body)], '');
      if (exitCode !== 0) throw new Error(stderr);
      return JSON.parse(stdout);
    };
    const ended = { stdout: '', stderr: '', exitCode: 0, runsOn: false };
    try {
      return { ...ended, stdout: JSON.stringify(await requests(args, send)) };
    } catch (error) {
      return { ...ended, stderr: messageOf(error), exitCode: 1 };
    }
  }

  #printed(answer: unknown): string {
    if (!this.faults.grown) return typeof answer === 'string' ? answer : JSON.stringify(answer ?? null);
    try {
      return JSON.stringify(grown(typeof answer === 'string' ? JSON.parse(answer) : answer));
    } catch {
      return String(answer);
    }
  }
}

async function dropDatabase({ database }: Thing): Promise<void> {
  if (database === null) return;
  const sql = `DROP DATABASE ${identifier(database.name)} WITH (FORCE)`;
  await withClient(serverUrl(database.version), (client) => client.query(sql));
  made.delete(`${database.version} ${database.name}`);
}

/** Every object has one more field, as in the next version of a service. */
function grown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(grown);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([name, each]) => [name, grown(each)]);
  return Object.fromEntries([...fields, ['addedLater', { by: ['the service'] }]]);
}

/** The target's schema and rows, which every clone has as well. */
export const SCHEMA = 'CREATE TABLE items AS SELECT n AS id FROM generate_series(1, 100) n';

const SHIM = (socket: string) => `#!${process.execPath}
const request = require('node:http').request({ socketPath: ${JSON.stringify(socket)}, method: 'POST' }, (response) => {
  let body = '';
  response.on('data', (chunk) => (body += chunk));
  response.on('end', () => {
    const { stdout, stderr, exitCode, runsOn } = JSON.parse(body);
    process.stdout.write(stdout);
    process.stderr.write(stderr);
    process.exitCode = exitCode;
    if (runsOn) setInterval(() => {}, 60_000);
  });
});
const input = require('node:fs').readFileSync(0, 'utf8');
request.end(JSON.stringify({ args: process.argv.slice(2), input }));
`;

/** Starts the real program, and leads it to the fake. */
function wrapper(real: RealProgram, url: string, folder: string): string {
  const { installed, command, variables, settings } = real;
  const [file = '', ...words] = command(url);
  // Logins and settings of the user are neither read nor changed.
  const given: Record<string, string> = { HOME: folder, XDG_CONFIG_HOME: folder, ...variables(url) };
  if (settings) {
    const yaml = path.join(folder, 'settings.yaml');
    writeFileSync(yaml, settings.text(url));
    given[settings.variable] = yaml;
  }
  const set = Object.entries(given).map(([name, value]) => `${name}=${value}`);
  const program = path.join('folder' in installed ? installed.folder : '', file);
  const quoted = [...set, program, ...words].map((word) => `'${word}'`).join(' ');
  return `#!/bin/sh\nexec env ${quoted} "$@"\n`;
}

async function answerShim(service: FakeService, request: IncomingMessage, response: ServerResponse) {
  const { args, input }: { args: string[]; input: string } = JSON.parse(await text(request));
  response.end(JSON.stringify(await service.callShim(args, input)));
}

async function answerRequest(
  service: FakeService,
  { refusal, statusOf }: RealProgram,
  request: IncomingMessage,
  response: ServerResponse,
) {
  const { pathname, search } = new URL(request.url ?? '', 'http://fake');
  const { method = '' } = request;
  const words = [method, pathname, search.slice(1), await text(request)];
  const { stdout, stderr, status } = await service.call(words, '');
  const body = status === 200 ? stdout : refusal(stderr);
  const sent = status === 200 ? (statusOf?.(method) ?? 200) : status;
  response.writeHead(sent, { 'content-type': body.startsWith('<') ? 'text/xml' : 'application/json' });
  response.end(body);
}

/** Puts a shim of the program, or the real one, first in PATH, of this process and of those that it starts. */
export async function fakeService(fake: FakeProgram): Promise<FakeService> {
  const folder = mkdtempSync(path.join(tmpdir(), 'fake-'));
  const service = new FakeService(fake);
  const { real } = fake;
  const server = createServer((request, response) =>
    real ? answerRequest(service, real, request, response) : answerShim(service, request, response),
  );
  const socket = path.join(folder, 'socket');
  await new Promise<void>((resolve) => {
    if (real) server.listen(0, '127.0.0.1', resolve);
    else server.listen(socket, resolve);
  });
  const programs = path.join(folder, 'bin');
  mkdirSync(programs);
  const shim = path.join(programs, fake.program);
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  writeFileSync(shim, real ? wrapper(real, url, folder) : SHIM(socket));
  chmodSync(shim, 0o755);
  process.env.PATH = [programs, process.env.PATH].join(path.delimiter);
  afterAll(() => {
    server.close();
    service.close();
    server.closeAllConnections();
    rmSync(folder, { recursive: true, force: true });
  });
  return service;
}
