import { SafemigrateError } from '../../errors.ts';
import type { SettingTree } from '../../settings.ts';
import { EXIT } from '../exit-codes.ts';
import { type Flag, flagsIn } from '../options/flags.ts';
import { RUN_SETTINGS } from '../options/run-table.ts';
import { subcommands } from '../options/subcommand-table.ts';

/** Prints a completion script for the shell, made from the table of options. */
export function completionCommand(shell: string | undefined): number {
  const make = shell === undefined ? undefined : SHELLS[shell];
  if (!make)
    throw new SafemigrateError(
      'USAGE',
      shell === undefined ? 'Which shell?' : `There is no completion for ${shell}.`,
      {
        hint: `safemigrate completion ${Object.keys(SHELLS).join(' | ')}, as in: source <(safemigrate completion bash)`,
      },
    );
  process.stdout.write(make());
  return EXIT.passed;
}

const SHELLS: Readonly<Record<string, () => string>> = { bash, zsh, fish };

function flagsOf(tree: SettingTree): string[] {
  return [...flagsIn(tree).map(({ name }) => name), '--help'];
}

/** After `--` the shell completes the command as if it were typed alone. */
function bash(): string {
  const cases = subcommands().map(
    ([name, { options }]) => `    ${name}) words='${flagsOf(options).join(' ')}' ;;`,
  );
  return `# bash completion for safemigrate
_safemigrate() {
  local current=\${COMP_WORDS[COMP_CWORD]} words index
  for ((index = 1; index < COMP_CWORD; index++)); do
    if [ "\${COMP_WORDS[index]}" = -- ]; then
      if declare -F _command_offset > /dev/null; then _command_offset $((index + 1)); fi
      return
    fi
  done
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
    *)
      words='${flagsOf(RUN_SETTINGS).join(' ')} --version --'
      if [ "$COMP_CWORD" -eq 1 ]; then words="$words ${subcommands()
        .map(([name]) => name)
        .join(' ')}"; fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [ \${#COMPREPLY[@]} -eq 0 ]; then mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi
}
complete -F _safemigrate safemigrate
`;
}

function zsh(): string {
  const quoted = (text: string) =>
    text.replaceAll("'", "'\\''").replaceAll('[', '(').replaceAll(']', ')').replaceAll(':', '\\:');
  const specs = (tree: SettingTree) =>
    flagsIn(tree).map(({ usage, summary, repeatable }) => {
      const [name = '', value] = usage.split(' ');
      return `'${repeatable ? '*' : ''}${name}[${quoted(summary)}]${value ? `:${quoted(value.replace(/[<>]/g, ''))}:_files` : ''}'`;
    });
  const cases = subcommands().map(
    ([name, { options }]) => `    ${name}) _arguments ${[...specs(options), "'*:word:_files'"].join(' ')} ;;`,
  );
  return `#compdef safemigrate
_safemigrate() {
  local index=\${words[(i)--]}
  if (( index < CURRENT )); then
    shift $index words
    (( CURRENT -= index ))
    _normal
    return
  fi
  case $words[2] in
${cases.join('\n')}
    *)
      if (( CURRENT == 2 )); then _values 'subcommand' ${subcommands()
        .map(([name, { summary }]) => `'${name}[${quoted(summary)}]'`)
        .join(' ')}; fi
      _arguments ${specs(RUN_SETTINGS).join(' ')}
      ;;
  esac
}
compdef _safemigrate safemigrate
`;
}

function fish(): string {
  const quoted = (text: string) => text.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
  const line = (condition: string, { usage, summary }: Flag) => {
    const [name = '', value] = usage.split(' ');
    return `complete -c safemigrate -n '${condition}' -l ${name.slice(2)}${value ? ' -r' : ''} -d '${quoted(summary)}'`;
  };
  const names = subcommands().map(([name]) => name);
  const first = `not __fish_seen_subcommand_from ${names.join(' ')}; and not contains -- -- (commandline -opc)`;
  return [
    '# fish completion for safemigrate',
    ...subcommands().map(
      ([name, { summary }]) =>
        `complete -c safemigrate -n __fish_use_subcommand -a ${name} -d '${quoted(summary)}'`,
    ),
    ...flagsIn(RUN_SETTINGS).map((spec) => line(first, spec)),
    ...subcommands().flatMap(([name, { options }]) =>
      flagsIn(options).map((spec) => line(`__fish_seen_subcommand_from ${name}`, spec)),
    ),
    "complete -c safemigrate -n 'contains -- -- (commandline -opc)' -xa '(__fish_complete_subcommand --fcs-skip=2)'",
    '',
  ].join('\n');
}
