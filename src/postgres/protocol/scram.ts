import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto';

/** The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677). The client's side is pg's. */
export const SCRAM = 'SCRAM-SHA-256';
/** The same, bound to the TLS connection by its certificate (RFC 5929). */
export const SCRAM_PLUS = 'SCRAM-SHA-256-PLUS';
const BOUND = 'p=tls-server-end-point';

const ITERATIONS = 4096;
const KEY_BYTES = 32;
/** RFC 3454 C.1.2: spaces that SASLprep maps to the ASCII space. */
const NON_ASCII_SPACE = /[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000]/g;
/** RFC 3454 B.1: characters that SASLprep drops. */
const MAPPED_TO_NOTHING = /\u00ad|\u034f|\u1806|[\u180b-\u180d]|\u200c|\u200d|\u2060|[\ufe00-\ufe0f]|\ufeff/g;
/** base64 of `n,,`; a client that could bind the channel and saw no offer says `y,,`. */
const NOT_BOUND = ['biws', 'eSws'];

/** The exchange failed for a reason that reveals nothing about the password. */
export class ScramError extends Error {}

/** The keys that a server stores instead of a password; derived once for a run. */
export class ScramVerifier {
  readonly salt = randomBytes(16).toString('base64');
  readonly iterations = ITERATIONS;
  readonly storedKey: Buffer;
  readonly serverKey: Buffer;

  constructor(password: string) {
    const salt = Buffer.from(this.salt, 'base64');
    const salted = pbkdf2Sync(saslprep(password), salt, ITERATIONS, KEY_BYTES, 'sha256');
    const { clientKey, serverKey } = keys(salted);
    this.storedKey = sha256(clientKey);
    this.serverKey = serverKey;
  }
}

/** Checks one login of a client. */
export class ScramServer {
  readonly #verifier: ScramVerifier;
  readonly #certificateHash: Buffer | undefined;
  readonly #nonce = randomBytes(18).toString('base64');
  #exchange = '';
  #fullNonce = '';
  #bindings = NOT_BOUND;

  /** @param certificateHash of the connection's certificate, if the client may bind the login to it. */
  constructor(verifier: ScramVerifier, certificateHash?: Buffer) {
    this.#verifier = verifier;
    this.#certificateHash = certificateHash;
  }

  /** Returns the answer to the client's first message. @throws ScramError if that is malformed. */
  challenge(clientFirst: string): string {
    const [, header = '', flag = '', bare] =
      /^((\w(?:=[\w-]+)?),(?:a=[^,]*)?,)(.*)$/s.exec(clientFirst) ?? [];
    const isBound = flag === BOUND && this.#certificateHash !== undefined;
    if (!isBound && flag !== 'n' && flag !== 'y')
      throw new ScramError('the first SCRAM message makes no sense');
    if (isBound && this.#certificateHash)
      this.#bindings = [Buffer.concat([Buffer.from(header), this.#certificateHash]).toString('base64')];
    const nonce = bare === undefined ? undefined : attributes(bare).r;
    if (bare === undefined || !nonce) throw new ScramError('the first SCRAM message makes no sense');
    this.#fullNonce = nonce + this.#nonce;
    const { salt, iterations } = this.#verifier;
    const serverFirst = `r=${this.#fullNonce},s=${salt},i=${iterations}`;
    this.#exchange = `${bare},${serverFirst}`;
    return serverFirst;
  }

  /** Returns the server's last message, or undefined if the password is wrong. @throws ScramError if the message is malformed. */
  check(clientFinal: string): string | undefined {
    const { c: binding, r: nonce, p: proof } = attributes(clientFinal);
    if (
      binding === undefined ||
      !this.#bindings.includes(binding) ||
      nonce !== this.#fullNonce ||
      proof === undefined
    )
      throw new ScramError('the last SCRAM message makes no sense');
    const exchange = `${this.#exchange},${clientFinal.slice(0, clientFinal.lastIndexOf(',p='))}`;
    const { storedKey, serverKey } = this.#verifier;
    const given = Buffer.from(proof, 'base64');
    if (given.length !== KEY_BYTES) return undefined;
    const clientKey = xor(given, hmac(storedKey, exchange));
    if (!timingSafeEqual(sha256(clientKey), storedKey)) return undefined;
    return `v=${hmac(serverKey, exchange).toString('base64')}`;
  }
}

/** Normalises a password as pg, libpq and the server do: SASLprep (RFC 4013) without its prohibitions. */
function saslprep(password: string): string {
  return password.replace(NON_ASCII_SPACE, ' ').replace(MAPPED_TO_NOTHING, '').normalize('NFKC');
}

function keys(salted: Buffer): { clientKey: Buffer; serverKey: Buffer } {
  return { clientKey: hmac(salted, 'Client Key'), serverKey: hmac(salted, 'Server Key') };
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}

function xor(a: Buffer, b: Buffer): Buffer {
  return Buffer.from(a.map((byte, index) => byte ^ (b[index] ?? 0)));
}

/** `r=…,s=…,i=…`; values may hold `=`. */
function attributes(text: string): Partial<Record<string, string>> {
  return Object.fromEntries(text.split(',').map((part) => [part.slice(0, 1), part.slice(2)]));
}
