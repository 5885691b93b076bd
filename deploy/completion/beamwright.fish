# Completion for fish: flags and commands as the programs' own --help lists them.
function __beamwright_command
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if not string match -q -- '-*' $word; and test $word != help
            echo $word
            return
        end
    end
end

function __beamwright_flags
    set -l program (commandline -opc)[1]
    set -l command
    string match -q -- '*beamwright-server' $program; or set command (__beamwright_command)
    $program $command --help 2>/dev/null | string match -arg -- '(?:^| |,)(--[a-z][a-z0-9-]*)' | sort -u
end

function __beamwright_commands
    set -l program (commandline -opc)[1]
    $program --help 2>/dev/null | sed -nE '/^(Subcommands|Commands):/,$ s/^  ([a-z][a-z-]*)  .*/\1/p'
end

for program in beamwright beamwright-server beamwright-graph
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__beamwright_flags)'
end
for program in beamwright beamwright-graph
    complete -c $program -n 'test -z (__beamwright_command); and not string match -q -- "-*" (commandline -ct)' -f -a '(__beamwright_commands)'
end
