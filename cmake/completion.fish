# Completes ftrun: options, as -h lists them, and subcommands; then programs, then files.
function __ftrun_options
    set -l words (commandline -opc)
    set -l subcommand
    if set -q words[2]; and contains -- $words[2] inspect check
        set subcommand $words[2]
    end
    $words[1] $subcommand -h 2>/dev/null | string replace -rf '^  (-[-a-zA-Z,]*).*' '$1' | string split ,
end
function __ftrun_is_first
    test (count (commandline -opc)) -eq 1
end
complete -c ftrun -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__ftrun_options)'
complete -c ftrun -n __ftrun_is_first -a 'inspect check (__fish_complete_command)'
