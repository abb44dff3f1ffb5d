declare module 'pg/lib/crypto/cert-signatures.js' {
  /** `SHA-256`, …: the hash of the signature of a certificate in DER. @throws for what it does not know. */
  export function signatureAlgorithmHashFromCertificate(certificate: Buffer): string;
}
