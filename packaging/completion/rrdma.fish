# fish completion of rrdma(1): rrdma completion fish | source
function __rrdma_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete-words -- $words[2..-1] 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path (commandline -ct)
            case ':program *'
                set -l from (math (string replace ':program ' '' -- $line) + 2)
                __fish_complete_subcommand --commandline $words[$from..-1]
            case '*'
                echo $line
        end
    end
end
complete -c rrdma -f -a '(__rrdma_complete)'
