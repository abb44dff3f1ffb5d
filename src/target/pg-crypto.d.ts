/** Inside pg: what its SCRAM login calls. */
declare module 'pg/lib/crypto/utils.js' {
  export default utils;
  const utils: {
    deriveKey(password: string, salt: Uint8Array, iterations: number): Promise<ArrayBuffer>;
  };
}
