#compdef ftrun
# Completes ftrun: options, as -h lists them, and subcommands; then programs, then files.
_ftrun() {
  local program=${words[1]} subcommand=()
  (( CURRENT > 2 )) && [[ ${words[2]} == (inspect|check) ]] && subcommand=(${words[2]})
  if [[ ${words[CURRENT]} == -* ]]; then
    local -a options
    options=(${(s:,:)$($program $subcommand -h 2> /dev/null | sed -n 's/^  \(-[-a-zA-Z,]*\).*/\1/p' | paste -sd,)})
    compadd -- $options
    return
  fi
  (( CURRENT == 2 )) && compadd -- check inspect
  (( $#subcommand )) || _command_names -e
  _files
}
_ftrun "$@"
