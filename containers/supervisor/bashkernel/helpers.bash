# What a kernel's bash has between runs and at a run's end: code does not see these functions. The descriptors: 249 this file, 250 the
# script, 251 what to do next, 252 reports, 253 and 254 stdout and stderr.

# Without one of the descriptors no later run would be what it says. The largest first: bash keeps what a redirection covers in
# the next free one above it.
__sandbox_check() { builtin : >&254 >&253 >&252 <&251 <&250 <&249 || builtin kill -9 $$; }

__sandbox_hello() { __sandbox_check; builtin printf 'hello\n%s\0' "$BASH_VERSION" >&252; }

# Does what it is told, until the script has more. A time of its own keeps the code's TMOUT from ending the wait. Where bash finds no end
# of code's last command, there is none behind it but that of the script: what comes behind code would belong to a here-document, or to a
# text in quotes. Of the two line ends behind other code a last backslash takes one.
__sandbox_next() {
  builtin unset -f command
  while builtin read -t 1000000000 -r -u 251 __sandbox_line || builtin kill -9 $$; do
    case $__sandbox_line in
    run)
      \command exec </dev/null >&253 2>&254
      builtin local __sandbox_code=
      __sandbox_open=1
      builtin mapfile -d '' -u 250 __sandbox_code
      if [[ ! $(builtin shopt -s extglob; builtin eval "builtin set -n"$'\n'"${__sandbox_code-}" 2>&1) ]]; then __sandbox_open=; builtin printf '\n\n%s\n' "$__sandbox_behind" >>/dev/fd/250; fi
      __sandbox_leave
      builtin return 0
      ;;
    load)
      \command exec </dev/null >/dev/null 2>&1
      __sandbox_leave
      builtin return 0
      ;;
    *) builtin eval "$__sandbox_line" ;;
    esac
  done
}

# Runs what the code has set for its end, which may change the status by exit.
__sandbox_trapped() {
  builtin local -
  builtin set +eu
  builtin set -- "$1" "${__sandbox_trap-}"
  __sandbox_status=$1 __sandbox_trap=
  if [[ -n $2 ]]; then
    function exit {
      if [[ $BASHPID != "$$" ]]; then builtin exit "$@"; fi
      __sandbox_status=${1-$?}
    }
    __sandbox_return "$1"
    builtin eval "$2" </dev/null >&253 2>&254
    builtin unset -f exit
  fi
}

__sandbox_return() { builtin return "$1"; }

# The number is the run's: a report with another is none.
__sandbox_end() {
  __sandbox_trapped "$1"
  __sandbox_check
  { builtin printf 'end %s\n%s\n' "$2" "$__sandbox_status"; builtin jobs -lr; builtin printf '\0'; } >&252
}

# Another bash goes on in this process when code ends the shell. Options are written down before they are changed.
__sandbox_exit() {
  __sandbox_check
  builtin printf 'exit\0' >&252
  __sandbox_signalled "$1" || builtin :
  __sandbox_trapped "$__sandbox_status" || builtin :
  __sandbox_jobs || builtin :
  __sandbox_save "$__sandbox_status" || builtin :
  until [[ $__sandbox_line == 'again '* ]]; do builtin read -t 1000000000 -r -u 251 __sandbox_line || builtin kill -9 $$; done
  __sandbox_script=bash
  builtin cd -- "${__sandbox_line#again }" || __sandbox_script=/dev/fd/250
  builtin exec -c -a bash "$__sandbox_bash" --norc --noprofile "$__sandbox_script"
}

# Bash has no sign for a signal that ends it, and the status is that of the command before. With the status 0, code that has an end, and
# a last command that cannot be exit it was one. Which one is not known: it counts as TERM.
__sandbox_signalled() {
  builtin local -
  builtin set +eu
  builtin trap -p >|/dev/fd/250
  builtin mapfile -d '' -t __sandbox_text </dev/fd/250
  case $1$__sandbox_open:$__sandbox_last:${__sandbox_text/"$__sandbox_own_trap"} in
  0:*exit* | 0:[\$\"\`]* | 0:set\ -* | [!0]* | 01:*) ;;
  *) __sandbox_status=143 ;;
  esac
}

# Writes all that there is as records: a kind, a name, a line's end, and what makes it again; with a second argument all variables as one.
__sandbox_save() { __sandbox_write "$@" >&252; }

__sandbox_jobs() { { builtin printf 'j\n'; builtin jobs -lr; builtin printf '\0'; } >&252; }

# set -e is for the run that sets it: later ones would end at their first failure without a word.
__sandbox_write() {
  builtin set +e
  builtin printf 'o\n'; builtin set +o; builtin printf '\0'
  builtin set +efuvx +o posix
  builtin printf 's\n'; builtin shopt -p; builtin printf '\0'
  builtin printf 'd\n'; builtin printf 'builtin cd -- %q' "$PWD"; builtin printf '\0'
  builtin printf 'p\nbuiltin set --'; if ((${#__sandbox_args[@]})); then builtin printf ' %q' "${__sandbox_args[@]}"; fi; builtin printf '\0'
  builtin shopt -u expand_aliases nocasematch
  builtin shopt -s extdebug # has lines of functions
  if [[ ${2-} ]]; then
    builtin printf 'V\n'; builtin declare -p; builtin printf '\0'
  else
    builtin declare -p >|/dev/fd/250
    builtin mapfile -t __sandbox_lines </dev/fd/250
    for __sandbox_line in "${__sandbox_lines[@]}"; do
      __sandbox_name=${__sandbox_line#declare -* } __sandbox_name=${__sandbox_name%%=*}
      case $__sandbox_name in
      '' | _ | PIPESTATUS | __sandbox_* | *[![:alnum:]_]*) ;; # what is there again at once, or a further line of a value
      *) __sandbox_variable ;;
      esac
    done
  fi
  builtin declare -F >|/dev/fd/250
  builtin mapfile -t __sandbox_lines </dev/fd/250
  for __sandbox_line in "${__sandbox_lines[@]}"; do
    __sandbox_name=${__sandbox_line##* }
    if [[ $__sandbox_name != __sandbox_* ]]; then __sandbox_function; fi
  done
  builtin printf 'u\n'; builtin umask -p; builtin printf '\0'
  builtin mapfile -t __sandbox_lines </proc/self/limits
  builtin printf 'm\n'; builtin printf '%s\n' "${__sandbox_lines[@]}"; builtin printf '\0'
  builtin printf 't\n'; builtin trap -p; builtin printf '%s\n' "${__sandbox_on_ERR-}" "${__sandbox_on_RETURN-}" "${__sandbox_on_DEBUG-}"; builtin printf '\0'
  builtin printf 'a\n'; builtin alias -p; builtin printf '\0'
  builtin printf 'end\n%s\n\0' "$1"
}

# Writes a variable and then what is behind it, where a function was left by exit: behind its own is the shell's.
__sandbox_variable() {
  while builtin declare -p "$__sandbox_name" >/dev/null; do
    builtin printf 'v%s\n' "$__sandbox_name"; builtin declare -p "$__sandbox_name"; builtin printf '\0'
    if [[ -R $__sandbox_name ]]; then builtin unset -n "$__sandbox_name"; else builtin unset -v "$__sandbox_name"; fi || builtin return
  done
}

# A function is kept where bash reads again what it prints: it puts a here-document of a condition behind the command that follows.
__sandbox_function() {
  builtin declare -f "$__sandbox_name" >|/dev/fd/250
  builtin mapfile -d '' -t __sandbox_text </dev/fd/250
  builtin unset -f __sandbox_again
  builtin eval "__sandbox_again${__sandbox_text#*"$__sandbox_name"}"
  builtin declare -f __sandbox_again >|/dev/fd/250
  builtin mapfile -d '' -t __sandbox_code </dev/fd/250
  if [[ ${__sandbox_code#__sandbox_again} != "${__sandbox_text#*"$__sandbox_name"}" ]]; then
    builtin printf 'l%s\n\0' "$__sandbox_name"
    builtin return
  fi
  builtin declare -F "$__sandbox_name" >|/dev/fd/250
  builtin read -r -d '' _ __sandbox_code _ </dev/fd/250
  builtin printf 'f%s\n%s\n%s' "$__sandbox_name" "$__sandbox_code" "${__sandbox_text/$'\n{'/{}"
  if [[ $__sandbox_line != 'declare -f '* ]]; then builtin printf '\0x%s\nbuiltin %s' "$__sandbox_name" "$__sandbox_line"; fi
  builtin printf '\0'
}

# Finds the text of a function as it was written, whose lines are the right ones, if it is that and nothing else; or as bash prints it.
__sandbox_written() {
  __sandbox_text=$2
  if [[ $(__sandbox_again "$1") == "$(__sandbox_again "$2")" ]]; then __sandbox_text=$1; fi
}

__sandbox_again() {
  builtin eval "__sandbox_again() {"$'\n'"$1"$'\n'"}"
  builtin declare -f __sandbox_again
}

# Sets traps for runs. Those for commands are not for what this program does, and are written down here: bash shows none of them
# within a function.
__sandbox_set_trap() {
  if [[ $# == 0 || $1 == -[!-]* ]]; then
    __sandbox_traps "$@"
    builtin return
  fi
  if [[ $1 == -- ]]; then builtin shift; fi
  builtin local __sandbox_word __sandbox_own=0 __sandbox_action="${1-}"
  if [[ $# == 1 || $1 && $1 != *[!0-9]* ]]; then __sandbox_action=-; else builtin shift; fi
  for __sandbox_word; do
    case $BASHPID:${__sandbox_word^^} in
    "$$":0 | "$$":EXIT | "$$":SIGEXIT)
      __sandbox_trap=$__sandbox_action
      if [[ $__sandbox_action == - || $__sandbox_action == *__sandbox_exit* ]]; then __sandbox_trap=; fi # as it was written down
      ;;
    *:DEBUG | *:ERR | *:RETURN) __sandbox_inner "${__sandbox_word^^}" ;;
    *)
      if ! builtin trap -- "$__sandbox_action" "$__sandbox_word" 2>/dev/null; then
        __sandbox_own=1
        builtin printf '%s: line %s: trap: %s: invalid signal specification\n' "$0" "${BASH_LINENO[1]}" "$__sandbox_word" >&2
      fi
      ;;
    esac
  done
  builtin return "$__sandbox_own"
}

# Sets a trap for commands, which is for those of runs alone. One that goes is taken back where it would fire next: bash would
# have the one before again at the end of this function.
__sandbox_inner() {
  builtin local __sandbox_action="$__sandbox_action" __sandbox_command=
  if [[ $1 != ERR ]]; then __sandbox_command=\$BASH_COMMAND; fi
  builtin printf -v "__sandbox_on_$1" '%s' "trap -- ${__sandbox_action@Q} $1"
  if [[ $__sandbox_action == - ]]; then
    builtin printf -v "__sandbox_on_$1" ''
    __sandbox_action="builtin trap - $1"
  fi
  builtin trap -- "${__sandbox_action:+"case \${FUNCNAME-}:\$__sandbox_line:$__sandbox_command in trap:* | *__sandbox_*) ;; *:run:*) $__sandbox_action"$'\n'";; esac"}" "$1"
}

# Lists traps as bash does, without this program's own.
__sandbox_traps() {
  builtin local __sandbox_name __sandbox_text __sandbox_own
  __sandbox_text=$(builtin trap "$@"; builtin printf "\n$?")
  __sandbox_own=${__sandbox_text##*$'\n'} __sandbox_text=${__sandbox_text%$'\n'*}
  __sandbox_name=${__sandbox_trap:+"trap -- ${__sandbox_trap@Q} EXIT"$'\n'}
  builtin printf '%s' "${__sandbox_text/"trap -- ${__sandbox_own_trap@Q} EXIT"$'\n'/"$__sandbox_name"}"
  for __sandbox_name in DEBUG ERR RETURN; do
    __sandbox_text=__sandbox_on_$__sandbox_name
    if [[ ${#FUNCNAME[@]} == 4 && ${!__sandbox_text-} && " ${*:--p} " =~ " "(-p|.*" ${__sandbox_name,,}"|.*" $__sandbox_name")" "$ ]]; then
      builtin printf '%s\n' "${!__sandbox_text}"
    fi
  done
  builtin return "$__sandbox_own"
}

__sandbox_leave() { builtin unset -f __sandbox_leave __sandbox_next __sandbox_check __sandbox_hello __sandbox_trapped __sandbox_return __sandbox_end __sandbox_exit __sandbox_save __sandbox_write __sandbox_variable __sandbox_function __sandbox_set_trap __sandbox_inner __sandbox_traps __sandbox_jobs __sandbox_signalled __sandbox_written __sandbox_again; builtin unset -v __sandbox_behind __sandbox_text; }
