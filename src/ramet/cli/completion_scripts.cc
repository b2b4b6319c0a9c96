#include "ramet/base/error.h"
#include "ramet/cli/completion.h"

// Each script asks `ramet complete WORDS...` for the possible words at the place where the tab key was pressed. The
// first line of the answer says which files the shell adds (none, folders or files); each other line is a word, a tab
// and its description. A word replaces the typed text behind the last "=", or all of the typed word.

namespace ramet::cli {
namespace {

constexpr const char* kBash = R"script(# Completion of ramet in bash: source <(ramet completion bash)
_ramet() {
  # bash takes "=" for a word of its own. What was typed as one word is put together again.
  local word words=()
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ ${#words[@]} -gt 1 && -n $word && ( $word == "=" || ${words[-1]} == *= ) &&
          $COMP_LINE == *"${words[-1]}$word"* ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  local typed=${words[-1]##*=} line lines paths=()
  mapfile -t lines < <("${words[0]/#\~/$HOME}" complete "${words[@]}" 2>/dev/null)
  COMPREPLY=()
  for line in "${lines[@]:1}"; do COMPREPLY+=("${line%%$'\t'*}"); done
  case ${lines[0]-} in
    folders) mapfile -t paths < <(compgen -d -- "$typed") ;;
    files) mapfile -t paths < <(compgen -f -- "$typed") ;;
  esac
  if [[ ${#paths[@]} -gt 0 ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY+=("${paths[@]}")
  fi
  # A key's value follows its "=" without a space.
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _ramet ramet
)script";

constexpr const char* kZsh = R"script(#compdef ramet
# Completion of ramet in zsh: source <(ramet completion zsh), after compinit; or this file as _ramet in a folder of fpath
_ramet() {
  local line word paths
  local -a lines keys values
  lines=("${(@f)$("${words[1]/#\~/$HOME}" complete "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  paths=$lines[1]
  for line in "${(@)lines[2,-1]}"; do
    word=${line%%$'\t'*}
    line=${word//:/\\:}:${line#*$'\t'}
    if [[ $word == *= ]]; then keys+=("$line"); else values+=("$line"); fi
  done
  compset -P '*='
  (( $#keys )) && _describe -t keys key keys -S ''
  (( $#values )) && _describe -t values value values
  case $paths in
    folders) _files -/ ;;
    files) _files ;;
  esac
}
if [[ $funcstack[1] == _ramet ]]; then _ramet "$@"; else compdef _ramet ramet; fi
)script";

constexpr const char* kFish = R"script(# Completion of ramet in fish: ramet completion fish | source
function __ramet_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l program (string replace -r '^~' -- $HOME $words[1])
    set -l lines ($program complete $words "$typed" 2>/dev/null)
    set -l paths $lines[1]
    set -e lines[1]
    # fish replaces the whole word: what is typed up to the last "=" stays before each candidate.
    set -l before (string match -r '^.*=' -- "$typed")
    set -l rest (string replace -r '^.*=' '' -- "$typed")
    for line in $lines
        echo "$before$line"
    end
    switch "$paths"
        case folders
            for path in (__fish_complete_directories "$rest" '')
                echo "$before$path"
            end
        case files
            for path in (__fish_complete_path "$rest")
                echo "$before$path"
            end
    end
end
complete -c ramet -f -a '(__ramet_complete)'
)script";

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  internal_error("completion_script", "no script for '" + shell + "'");
}

}  // namespace ramet::cli
