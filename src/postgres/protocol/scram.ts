import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto';
import { saltedPassword } from '../connection/salted-password.ts';

/** Both sides of SCRAM-SHA-256 (RFC 5802, RFC 7677); the client's also with channel binding (RFC 5929). */
export const SCRAM = 'SCRAM-SHA-256';
export const SCRAM_PLUS = 'SCRAM-SHA-256-PLUS';

const ITERATIONS = 4096;
const KEY_BYTES = 32;
const NO_CHANNEL_BINDING = 'n,,';
const BOUND_TO_CERTIFICATE = 'p=tls-server-end-point,,';
/** base64 of `n,,`; a client that could bind the channel and saw no offer says `y,,`. */
const NOT_BOUND = ['biws', 'eSws'];

/** The exchange failed, in a way that says nothing of the password. */
export class ScramError extends Error {}

/** One login to a server that asks for SCRAM. */
export class ScramClient {
  readonly mechanism: string;
  readonly first: string;
  readonly #password: string;
  readonly #header: string;
  readonly #binding: Buffer;
  readonly #nonce = randomBytes(18).toString('base64');
  #serverSignature: Buffer = Buffer.alloc(0);
  #verified = false;

  /** `certificateHash`: of the server's certificate, where the login is to be bound to it. */
  constructor(password: string, certificateHash?: Buffer) {
    // The server applies SASLprep; its heart is NFKC, and ASCII stays as it is.
    this.#password = password.normalize('NFKC');
    this.mechanism = certificateHash ? SCRAM_PLUS : SCRAM;
    this.#header = certificateHash ? BOUND_TO_CERTIFICATE : NO_CHANNEL_BINDING;
    this.#binding = certificateHash ?? Buffer.alloc(0);
    this.first = `${this.#header}n=,r=${this.#nonce}`;
  }

  /** The answer to the server's first message. @throws ScramError */
  async proof(serverFirst: string): Promise<string> {
    const { r: nonce, s: salt, i: iterations } = attributes(serverFirst);
    if (!nonce?.startsWith(this.#nonce) || salt === undefined || !(Number(iterations) > 0))
      throw new ScramError('the server sent a SCRAM message that makes no sense');
    const salted = await saltedPassword(this.#password, Buffer.from(salt, 'base64'), Number(iterations));
    const { clientKey, serverKey } = keys(salted);
    const bound = Buffer.concat([Buffer.from(this.#header), this.#binding]).toString('base64');
    const withoutProof = `c=${bound},r=${nonce}`;
    const exchange = `${this.first.slice(this.#header.length)},${serverFirst},${withoutProof}`;
    this.#serverSignature = hmac(serverKey, exchange);
    const proof = xor(clientKey, hmac(sha256(clientKey), exchange));
    return `${withoutProof},p=${proof.toString('base64')}`;
  }

  /** Whether the server has proved that it knows the password. */
  get verified(): boolean {
    return this.#verified;
  }

  /** Takes the server's proof that it knows the password as well. @throws ScramError */
  verify(serverFinal: string): void {
    const signature = Buffer.from(attributes(serverFinal).v ?? '', 'base64');
    if (signature.length !== KEY_BYTES || !timingSafeEqual(signature, this.#serverSignature))
      throw new ScramError('the server could not prove that it knows the password');
    this.#verified = true;
  }
}

/** What a server keeps of a password; made once for a run. */
export class ScramVerifier {
  readonly salt = randomBytes(16).toString('base64');
  readonly iterations = ITERATIONS;
  readonly storedKey: Buffer;
  readonly serverKey: Buffer;

  constructor(password: string) {
    const salted = pbkdf2Sync(password, Buffer.from(this.salt, 'base64'), ITERATIONS, KEY_BYTES, 'sha256');
    const { clientKey, serverKey } = keys(salted);
    this.storedKey = sha256(clientKey);
    this.serverKey = serverKey;
  }
}

/** One login of a client. */
export class ScramServer {
  readonly #verifier: ScramVerifier;
  readonly #nonce = randomBytes(18).toString('base64');
  #exchange = '';
  #fullNonce = '';

  constructor(verifier: ScramVerifier) {
    this.#verifier = verifier;
  }

  /** The answer to the client's first message. @throws ScramError */
  challenge(clientFirst: string): string {
    const bare = /^[ny],(?:a=[^,]*)?,(.*)$/s.exec(clientFirst)?.[1];
    const nonce = bare === undefined ? undefined : attributes(bare).r;
    if (bare === undefined || !nonce) throw new ScramError('the first SCRAM message makes no sense');
    this.#fullNonce = nonce + this.#nonce;
    const { salt, iterations } = this.#verifier;
    const serverFirst = `r=${this.#fullNonce},s=${salt},i=${iterations}`;
    this.#exchange = `${bare},${serverFirst}`;
    return serverFirst;
  }

  /** The server's last message, or undefined when the password is wrong. @throws ScramError */
  check(clientFinal: string): string | undefined {
    const { c: binding, r: nonce, p: proof } = attributes(clientFinal);
    if (
      binding === undefined ||
      !NOT_BOUND.includes(binding) ||
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
