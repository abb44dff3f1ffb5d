/** Inside pg: what its SCRAM login calls, over the object that is exported. */
declare module 'pg/lib/crypto/utils.js' {
  export default utils;
  const utils: {
    deriveKey(password: string, salt: Uint8Array, iterations: number): Promise<Uint8Array>;
    hmacSha256(key: Uint8Array, text: string | Uint8Array): Promise<Uint8Array>;
    sha256(text: string | Uint8Array): Promise<Uint8Array>;
  };
}
