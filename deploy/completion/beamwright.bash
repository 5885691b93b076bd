# Completion for bash: flags and commands as the programs' own --help lists them.
_beamwright() {
  local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} command='' before i help
  before=${COMP_WORDS[COMP_CWORD - 1]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -* || ${COMP_WORDS[i]} == help ]] || { command=${COMP_WORDS[i]}; break; }
  done
  [[ $program != *beamwright-server ]] || command=
  if [[ $word == -* ]]; then
    help=$("$program" ${command:+"$command"} --help 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- '(^| |,)--[a-z][a-z0-9-]*' <<<"$help" | tr -d ' ,' | sort -u)" -- "$word")
  elif [[ -z $command && $before != -* && $program != *beamwright-server ]]; then
    help=$("$program" --help 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W "$(sed -nE '/^(Subcommands|Commands):/,$ s/^  ([a-z][a-z-]*)  .*/\1/p' <<<"$help")" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _beamwright beamwright beamwright-server beamwright-graph
