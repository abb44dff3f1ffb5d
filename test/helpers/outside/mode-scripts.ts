import type { SentStep, Step } from './steps.ts';

type SingleStep = Exclude<Step, { do: 'together' }>;

/** One after the other, where nothing is sent together. */
function flat(steps: readonly Step[]): SingleStep[] {
  return steps.flatMap((step): readonly SingleStep[] => (step.do === 'together' ? step.steps : [step]));
}

/** A file of statements. */
export function psqlScript(steps: readonly Step[]): string {
  return flat(steps)
    .map((step) => {
      if (step.do === 'pause') return `\\! sleep ${step.seconds}\n`;
      return 'sql' in step ? `${step.literal};\n` : `${step.do};\n`;
    })
    .join('');
}

/** One process, which sends each step as a command of its own; what stands in one command is one Query. */
export function psqlCommands(steps: readonly Step[]): string {
  const commands = steps.map((step) => {
    if (step.do === 'pause') return `\\! sleep ${step.seconds}`;
    if (step.do === 'together') return step.steps.map(({ literal }) => literal).join('; ');
    return 'sql' in step ? step.literal : step.do;
  });
  const words = commands.map((command) => ` -c '${command.replaceAll("'", `'\\''`)}'`);
  return `exec psql -X -q "$DATABASE_URL" -o /dev/null${words.join('')}\n`;
}

/** In the extended protocol. */
export function boundScript(steps: readonly Step[], mode: string): string {
  const prepared: string[] = [];
  const sent = ({ sql, values }: SentStep, end: string) => {
    if (mode !== 'prepared') return `${sql} \\bind ${values.join(' ')} ${end}\n`;
    const parse = prepared.includes(sql) ? '' : `${sql} \\parse prepared_${prepared.push(sql)}\n`;
    return `${parse}\\bind_named prepared_${prepared.indexOf(sql) + 1} ${values.join(' ')} ${end}\n`;
  };
  return steps
    .map((step) => {
      if (step.do === 'pause') return `\\! sleep ${step.seconds}\n`;
      if (step.do === 'together') {
        const pipelined = mode === 'pipelined';
        const all = step.steps.map((each) => sent(each, pipelined ? '\\sendpipeline' : '\\g')).join('');
        return pipelined ? `\\startpipeline\n${all}\\endpipeline\n` : all;
      }
      return 'sql' in step ? sent(step, '\\g') : `${step.do};\n`;
    })
    .join('');
}

/** For Prisma, which begins anew with the next statement at once: without pauses. */
export function prismaScript(steps: readonly Step[]): string {
  return psqlScript(steps.filter((step) => step.do !== 'pause'));
}

/** For languages without a reader of JSON of their own. @param parameter what stands for one: `?`, or `$` with its number. */
export function lines(steps: readonly Step[], parameter: '?' | '$'): string {
  const line = (step: SingleStep, what: string = step.do) => {
    if (!('sql' in step)) return `${[what, 'seconds' in step ? step.seconds : ''].join('\t')}\n`;
    const { size = '', values, sql, literal } = step;
    return `${[what, size, values.join(' '), parameter === '$' ? sql : sql.replaceAll(/\$\d/g, '?'), literal].join('\t')}\n`;
  };
  return steps
    .map((step) =>
      step.do === 'together'
        ? `${step.steps.map((each) => line(each, 'together')).join('')}end\n`
        : line(step),
    )
    .join('');
}

/** Variables of pgbench are parameters but in the simple protocol. */
export function pgbenchScript(steps: readonly Step[], mode: string): string {
  const sent = ({ sql, values }: SentStep) =>
    `${values.map((value, index) => `\\set value_${index + 1} ${value}\n`).join('')}${sql.replace(/\$(\d)/g, ':value_$1')};\n`;
  return steps
    .map((step) => {
      if (step.do === 'pause') return `\\sleep ${step.seconds * 1000} ms\n`;
      if (step.do === 'together') {
        const all = step.steps.map(sent).join('');
        return mode === 'pipelined' ? `\\startpipeline\n${all}\\endpipeline\n` : all;
      }
      return 'sql' in step ? sent(step) : `${step.do};\n`;
    })
    .join('');
}
