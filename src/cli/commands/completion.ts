import { Argument, Command } from "commander";

/** `cairn completion bash|zsh|fish` */
export function completionCommand(program: Command): Command {
  return new Command("completion")
    .summary("print a completion script for a shell")
    .description("Prints a script that makes a shell complete cairn's commands and options.")
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addHelpText(
      "after",
      "\nExamples:\n  source <(cairn completion bash)\n  cairn completion zsh > ~/.zfunc/_cairn\n  cairn completion fish > ~/.config/fish/completions/cairn.fish",
    )
    .action((shell: "bash" | "zsh" | "fish") => {
      process.stdout.write(SCRIPTS[shell](program.commands.filter((command) => command.name() !== "completion")));
    });
}

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };

function longOptions(command: Command): string[] {
  return command.options.flatMap(({ long }) => (long ? [long] : []));
}

function bashScript(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const names = [command.name(), ...command.aliases()].join("|");
    return `    ${names}) words="${longOptions(command).join(" ")}" ;;`;
  });
  const names = commands.flatMap((command) => [command.name(), ...command.aliases()]).join(" ");
  return `_cairn() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${names} completion --help --version" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words --help" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _cairn cairn
`;
}

function zshScript(commands: readonly Command[]): string {
  const names = commands.map((command) => `    '${command.name()}:${quote(command.summary())}'`);
  const cases = commands.map((command) => {
    const options = command.options.flatMap(({ long, description }) =>
      long ? [`'${long}[${quote(description)}]'`] : [],
    );
    return `    ${[command.name(), ...command.aliases()].join("|")}) _arguments ${options.join(" ")} '*:file:_files' ;;`;
  });
  return `#compdef cairn
_cairn() {
  local -a commands
  commands=(
${names.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]" in
${cases.join("\n")}
  esac
}
compdef _cairn cairn
`;
}

function fishScript(commands: readonly Command[]): string {
  const lines = commands.flatMap((command) => [
    `complete -c cairn -n __fish_use_subcommand -a ${command.name()} -d '${quote(command.summary())}'`,
    ...command.options.flatMap(({ long, description }) =>
      long
        ? [
            `complete -c cairn -n '__fish_seen_subcommand_from ${command.name()}' -l ${long.slice(2)} -d '${quote(description)}'`,
          ]
        : [],
    ),
  ]);
  return `${lines.join("\n")}\n`;
}

function quote(text: string): string {
  return text.replaceAll("'", "").replaceAll("[", "(").replaceAll("]", ")").replaceAll(":", "");
}
