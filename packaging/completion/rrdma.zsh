#compdef rrdma
# zsh completion of rrdma(1): source <(rrdma completion zsh), or save it as _rrdma in a folder of $fpath
_rrdma() {
  local line word meaning files= program=
  local -a found
  while IFS= read -r line; do
    case $line in
      :files) files=1 ;;
      :program*) program=${line#:program } ;;
      *) word=${line%%$'\t'*} meaning=${line#*$'\t'}
         found+=("${word//:/\\:}:$meaning") ;;
    esac
  done < <("${words[1]}" complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if [[ -n $program ]]; then
    shift $((program + 1)) words
    ((CURRENT -= program + 1))
    if ((CURRENT == 1)); then _command_names -e; else _normal; fi
    return
  fi
  ((${#found})) && _describe 'rrdma' found
  [[ -n $files ]] && _files
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _rrdma "$@"; else compdef _rrdma rrdma; fi
