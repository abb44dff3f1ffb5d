/** Splits an advice into its sentence and the statements below it. */
export function adviceParts(advice: string): { readonly advice: string; readonly sql: string[] } {
  const [sentence = '', ...sql] = advice.split('\n');
  return { advice: sentence, sql };
}
