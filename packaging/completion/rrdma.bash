# bash completion of rrdma(1): source <(rrdma completion bash)
_rrdma() {
  local line words=() files= program=
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) files=1 ;;
      :program*) program=${line#:program } ;;
      *) words+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ -n $program ]]; then
    if ((COMP_CWORD > program + 1)) && declare -F _command_offset >/dev/null; then
      _command_offset $((program + 1))
    else
      mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    fi
    return
  fi
  COMPREPLY=("${words[@]}")
  [[ -z $files ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o filenames -F _rrdma rrdma
