# bash completion of rrdma(1). Subcommands and options come from --help, so they cannot become outdated.
_rrdma() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
  done
  if [[ -z $command ]]; then
    local words
    words=$("${COMP_WORDS[0]}" --help 2>/dev/null | awk '/^Subcommands:/ { on = 1; next } on && /^  [a-z]/ { print $1 }')
    mapfile -t COMPREPLY < <(compgen -W "$words --help --json --version" -- "$current")
    return
  fi
  # After `rrdma run`, complete the words of the program.
  if [[ $command == run ]]; then
    for ((++i; i < COMP_CWORD; ++i)); do
      case ${COMP_WORDS[i]} in
        --) ((++i)); _command_offset "$i"; return ;;
        --*=* | --lid | --only | --beside | --strict | --private | --share-memory) ;;
        -*) ((++i)) ;;
        *) _command_offset "$i"; return ;;
      esac
    done
  fi
  case $previous in
    --netdev) mapfile -t COMPREPLY < <(compgen -W "$(command ls /sys/class/net)" -- "$current"); return ;;
    --link) mapfile -t COMPREPLY < <(compgen -W "auto shm udp" -- "$current"); return ;;
    --udp-checksum) mapfile -t COMPREPLY < <(compgen -W "auto zero" -- "$current"); return ;;
    --log) mapfile -t COMPREPLY < <(compgen -W "error info debug" -- "$current"); return ;;
    --lang) mapfile -t COMPREPLY < <(compgen -W "en zh" -- "$current"); return ;;
    --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current"); return ;;
    -p | --pid) mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" stat --json 2>/dev/null | awk -F '[:,]' '/"pid"/ { print $2 }')" -- "$current"); return ;;
    --program) mapfile -t COMPREPLY < <(compgen -c -- "$current"); return ;;
    -s | --sort) [[ $command == top ]] && mapfile -t COMPREPLY < <(compgen -W "bytes messages resent rnr pid" -- "$current"); return ;;
    --pcap) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u)" -- "$current")
  elif [[ $command == decode || $command == capture || $command == inspect || $command == trace ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current"; [[ $command == decode ]] && compgen -W "qp= peer= op= errors" -- "$current")
  elif [[ $command == gids ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" devices 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$current")
  elif [[ $command == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null | awk '/^Subcommands:/ { on = 1; next } on && /^  [a-z]/ { print $1 }')" -- "$current")
  elif [[ $command == explain ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" explain --list 2>/dev/null | awk 'NR > 1 && $2 ~ /^[A-Z_]+$/ { print $2 }')" -- "$current")
  elif [[ $command == run ]]; then
    mapfile -t COMPREPLY < <(compgen -c -- "$current")
  fi
}
complete -o filenames -F _rrdma rrdma
