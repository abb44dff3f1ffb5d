/** What a program that started safemigrate with `--format json` decides. */
interface Decision {
  readonly pass: boolean;
  readonly exitCode: number;
  /** What to do, each with its place if it has one. */
  readonly todo: string[];
}

/** What it reads of an objection. */
interface Objection {
  readonly code: string;
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly fix: { readonly advice: string } | null;
  readonly accept: string | null;
}

/** Decides from standard output alone, whatever the ending. */
export function decide(stdout: string): Decision {
  const { error, exitCode, verdict, apply } = JSON.parse(stdout);
  if (error)
    return { pass: false, exitCode: error.exitCode, todo: [`${error.code}: ${error.hint ?? error.message}`] };
  const objections = verdict.objections.map(({ code, message, file, line, fix, accept }: Objection) => {
    const place = file === null ? '' : `${file}:${line ?? '?'} `;
    return `${place}${code}: ${fix?.advice ?? message}${accept === null ? '' : ` | ${accept}`}`;
  });
  return { pass: exitCode === 0, exitCode, todo: [...objections, ...(apply?.reasons ?? [])] };
}
