# Completes ftrun: options, as -h lists them, and subcommands; then programs, then files.
_ftrun() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  case $previous in
    --wdir | --wd | --journal-dir | --checkpoint-dir | --output-filename)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --bind-to)
      mapfile -t COMPREPLY < <(compgen -W \
        'auto none hwthread core l1cache l2cache l3cache numa socket' -- "$word")
      return
      ;;
    --snapshots) mapfile -t COMPREPLY < <(compgen -W 'auto off' -- "$word"); return ;;
    --on-divergence) mapfile -t COMPREPLY < <(compgen -W 'stop warn' -- "$word"); return ;;
    --libc-recording) mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$word"); return ;;
  esac
  local subcommand=()
  case ${COMP_WORDS[1]} in inspect | check) ((COMP_CWORD > 1)) && subcommand=("${COMP_WORDS[1]}") ;; esac
  if [[ $word == -* ]]; then
    local options
    options=$("${COMP_WORDS[0]}" "${subcommand[@]}" -h 2> /dev/null | sed -n 's/^  \(-[-a-zA-Z,]*\).*/\1/p' | tr , '\n')
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ -n ${subcommand[0]} ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
    ((COMP_CWORD == 1)) && mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W 'check inspect' -- "$word")
  fi
}
complete -o filenames -F _ftrun ftrun
