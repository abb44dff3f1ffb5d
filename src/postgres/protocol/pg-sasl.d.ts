/** Parts of pg that it exports without types. */
declare module 'pg/lib/crypto/sasl.js' {
  /** A SCRAM-SHA-256 login of a client, advanced by the functions below. */
  export interface SaslSession {
    readonly mechanism: string;
    /** The message to send next. */
    readonly response: string;
  }

  /** TLSSocket, as far as the login is bound to it. */
  interface TlsStream {
    getPeerCertificate(): { raw: Buffer };
  }

  /**
   * Starts a login with a mechanism that the server offers.
   * @param stream the TLS connection if the login is bound to it (SCRAM-SHA-256-PLUS).
   * @param maxIterations 0 is no limit.
   * @throws if no mechanism is known.
   */
  export function startSession(
    mechanisms: readonly string[],
    stream: TlsStream | undefined,
    maxIterations: number,
  ): SaslSession;
  /** Computes the proof of the password, which it normalises by SASLprep. @throws if the message is malformed. */
  export function continueSession(
    session: SaslSession,
    password: string,
    serverFirst: string,
    stream?: TlsStream,
  ): Promise<void>;
  /** Verifies the server's proof that it knows the password. @throws if it does not. */
  export function finalizeSession(session: SaslSession, serverFinal: string): void;
}

declare module 'pg/lib/crypto/cert-signatures.js' {
  /** Returns the hash algorithm of a DER certificate's signature, such as `SHA-256`. @throws for an unknown one. */
  export function signatureAlgorithmHashFromCertificate(certificate: Buffer): string;
}
