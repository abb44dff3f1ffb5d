import { createHash, X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import type { RunCertificate } from '../command/sandbox/run-certificate.ts';

/** Clients that speak TLS without a request before it must name this protocol, and servers must choose it. */
const ALPN = ['postgresql'];

/** Speaks TLS with clients, by the certificate of the run. */
export class Encryption {
  readonly #context: SecureContext;

  /** Clients may bind their login to it (tls-server-end-point of RFC 5929). */
  readonly certificateHash: Buffer;

  constructor({ key, cert }: RunCertificate) {
    this.#context = createSecureContext({ key, cert });
    this.certificateHash = createHash('sha256').update(new X509Certificate(cert).raw).digest();
  }

  /** Makes the handshake. @returns undefined if the client ends it: it does not trust the certificate, or has other demands. */
  readonly encrypt = (client: Socket): Promise<TLSSocket | undefined> => {
    const encrypted = new TLSSocket(client, {
      isServer: true,
      secureContext: this.#context,
      ALPNProtocols: ALPN,
    });
    return new Promise((resolve) => {
      encrypted.on('error', () => encrypted.destroy());
      encrypted.once('_tlsError', () => resolve(undefined));
      encrypted.once('close', () => resolve(undefined));
      encrypted.once('secure', () => resolve(encrypted));
    });
  };
}
