import type { Socket } from 'node:net';
import type { Route } from '../command/rewrite.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { PieceReader } from '../postgres/protocol/frame-reader.ts';
import { FROM_CLIENT, FrameSplitter } from '../postgres/protocol/frames.ts';
import { AUTHENTICATION, authentication } from '../postgres/protocol/messages.ts';
import { ScramVerifier } from '../postgres/protocol/scram.ts';
import { settingsAtStart, withSettings } from '../postgres/protocol/startup-settings.ts';
import type { Gate } from './observed.ts';
import { logInReadOnly } from './read-only-login.ts';
import { type Arrival, askPassword, authenticate, Refusal, type Startup } from './startup.ts';
import { isAboutPassword, logIn, type Upstream } from './upstream.ts';

export interface EntranceOptions {
  /** Who is let in, under which name of a database, and the server that it connects to. */
  readonly routes: readonly Pick<Route, 'user' | 'database' | 'upstream' | 'scramPassword'>[];
  /** The password for all of them. */
  readonly secret: string;
  /** Default: everything may run. */
  readonly gate?: Gate;
  /** Settings that sessions begin with, unless their client's start-up message has them. */
  readonly settings?: Readonly<Record<string, string>>;
  /**
   * Returns what another database name connects to, for the user of a route (a maintenance database, databases that the
   * command creates), or undefined if there is no such database.
   */
  readonly otherDatabase?: (name: string, upstream: ConnectionSettings) => ConnectionSettings | undefined;
  /** Returns what a role without a route connects to, if its client came in the target's place. */
  readonly otherRole?: (user: string) => ConnectionSettings;
}

/** A client that was let in, with its connection to the server. */
export interface Admitted {
  readonly reader: PieceReader;
  readonly upstream: Upstream;
  /** Names of the settings that were added to the client's own. */
  readonly given: ReadonlySet<string>;
  readonly readOnly: boolean;
}

export const OPEN: Gate = { before: () => 'run', open: true };
const UNKNOWN_DATABASE = '3D000';
const INVALID_AUTHORIZATION = '28000';

/**
 * Decides who enters the proxy, and logs in to the server for them. At the proxy's own address clients need the run's secret. In the
 * target's place, inside the command's sandbox, there are no other clients than the command: it enters with any login, and
 * its password is asked for only if the server needs one that is not known.
 */
export class Entrance {
  /** Roles that entered in the target's place without being asked for their password. */
  readonly untriedPasswords = new Set<string>();
  readonly #options: EntranceOptions;
  readonly #verifier: ScramVerifier;
  readonly #stop: AbortSignal;

  constructor(options: EntranceOptions, stop: AbortSignal) {
    this.#options = options;
    this.#verifier = new ScramVerifier(options.secret);
    this.#stop = stop;
  }

  /** Logs a client in, and sends it the server's own greeting. @throws Refusal, SafemigrateError, ProtocolError */
  async admit(
    socket: Socket,
    { startup, rest }: Extract<Arrival, { kind: 'session' }>,
    { inPlaceOfTarget, certificateHash }: { inPlaceOfTarget: boolean; certificateHash?: Buffer | undefined },
  ): Promise<Admitted> {
    if (startup.negotiation) socket.write(startup.negotiation);
    const reader = new PieceReader(socket, new FrameSplitter(FROM_CLIENT), rest);
    const verifier = inPlaceOfTarget ? this.#verifierOf(startup) : this.#verifier;
    if (verifier) await authenticate(socket, reader, startup, verifier, certificateHash);
    const { gate = OPEN } = this.#options;
    const answer = gate.begins?.(settingsAtStart(startup.parameters)) ?? 'run';
    if (answer !== 'run') throw new Refusal(answer);
    const { parameters, given } = withSettings(startup.parameters, this.#options.settings ?? {});
    const readOnly = gate.readsOnly?.(startup.database) === true;
    const settings = this.#settingsFor(startup, inPlaceOfTarget);
    const connect = (login: ConnectionSettings) =>
      (readOnly ? logInReadOnly : logIn)(login, parameters, this.#stop, startup.version);
    const upstream =
      inPlaceOfTarget && !verifier
        ? await this.#connectAsking(connect, settings, { socket, reader, user: startup.user })
        : await connect(settings);
    socket.write(Buffer.concat([authentication(AUTHENTICATION.ok), ...upstream.greeting]));
    return { reader, upstream, given, readOnly };
  }

  #verifierOf({ user }: Startup): ScramVerifier | undefined {
    const route = this.#options.routes.find((each) => each.user === user);
    return route?.scramPassword === undefined ? undefined : new ScramVerifier(route.scramPassword);
  }

  async #connectAsking(
    connect: (login: ConnectionSettings) => Promise<Upstream>,
    settings: ConnectionSettings,
    { socket, reader, user }: { socket: Socket; reader: PieceReader; user: string },
  ): Promise<Upstream> {
    try {
      const upstream = await connect(settings);
      this.untriedPasswords.add(user);
      return upstream;
    } catch (error) {
      if (!isAboutPassword(error)) throw error;
      return connect({ ...settings, password: await askPassword(socket, reader) });
    }
  }

  #settingsFor({ user, database }: Startup, inPlaceOfTarget: boolean): ConnectionSettings {
    const { routes, otherDatabase, otherRole } = this.#options;
    const ofUser = routes.filter((route) => route.user === user);
    const [first] = routes;
    if (ofUser.length === 0 && inPlaceOfTarget && otherRole && first)
      ofUser.push({ user, database: first.database, upstream: otherRole(user) });
    const [own] = ofUser;
    if (!own)
      throw new Refusal({
        sqlstate: INVALID_AUTHORIZATION,
        message: `The role "${user}" is not one that the rehearsal was given.`,
        hint: `It was given ${named(routes.map((route) => route.user))}.`,
      });
    const upstream = ofUser.find((route) => route.database === database)?.upstream;
    const settings = upstream ?? otherDatabase?.(database, own.upstream);
    if (settings) return settings;
    throw new Refusal({
      sqlstate: UNKNOWN_DATABASE,
      message: `database "${database}" is not part of this rehearsal`,
      hint: `It offers ${named(ofUser.map((route) => route.database))}.`,
    });
  }
}

function named(names: readonly string[]): string {
  return [...new Set(names)].map((name) => `"${name}"`).join(', ');
}
