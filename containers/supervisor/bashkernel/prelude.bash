# What a kernel's bash is told first. The descriptors: 250 code, 251 these lines, 252 reports, 253 and 254 stdout and stderr.
builtin shopt -s expand_aliases
__sandbox_bash=$BASH __sandbox_loop=$BASH_EXECUTION_STRING

# Takes what the descriptor of the code has.
__sandbox_read() { builtin mapfile -d '' -n 1 -t -u 250 __sandbox_code || builtin kill -9 $$; }

# Without one of the descriptors no later run would be what it says. The largest first: bash keeps what a redirection covers in
# the next free one above it.
__sandbox_check() { builtin : >&254 >&253 >&252 <&251 <&250 || builtin kill -9 $$; }

__sandbox_hello() { __sandbox_check; builtin printf 'hello\n%s\0' "$BASH_VERSION" >&252; }

# Runs what the code has set for its end, which may change the status by exit.
__sandbox_trapped() {
  builtin local -
  builtin set +eu
  builtin set -- "$1" "${__sandbox_trap-}"
  __sandbox_status=$1 __sandbox_trap=
  if [[ -n $2 ]]; then
    exit() {
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

# Another bash goes on in this process when code ends the shell. Options are written down before they are changed. A program
# that is ended before it is more than a copy of the shell comes here too.
__sandbox_exit() {
  if [[ ${BASHPID-$$} != "$$" ]]; then builtin return; fi
  exec >/dev/null 2>&1
  builtin printf 'exit\0' >&252
  __sandbox_trapped "$1" || builtin :
  __sandbox_save "$__sandbox_status" || builtin :
  builtin exec -c -a bash "$__sandbox_bash" --norc --noprofile -c "$__sandbox_loop" bash
}

# Writes all that there is as records: a kind, a name, a line's end, and what makes it again.
__sandbox_save() { __sandbox_write "$1" >&252; }

__sandbox_jobs() { { builtin printf 'j\n'; builtin jobs -r; builtin printf '\0'; } >&252; }

# set -e is for the run that sets it: later ones would end at their first failure without a word.
__sandbox_write() {
  builtin set +e
  builtin printf 'o\n'; builtin set +o; builtin printf '\0'
  builtin set +efuvx +o posix
  builtin printf 's\n'; builtin shopt -p; builtin printf '\0'
  for __sandbox_letter in _ {a..z} {A..Z}; do
    builtin eval "__sandbox_names=(\"\${!$__sandbox_letter@}\")"
    for __sandbox_name in "${__sandbox_names[@]}"; do
      case $__sandbox_name in
      BASH_ENV) ;;
      __sandbox_* | _ | BASH* | SHELLOPTS | EUID | UID | PPID | GROUPS | DIRSTACK | FUNCNAME | LINENO | *RANDOM | SECONDS | EPOCH* | PIPESTATUS | HISTCMD | PWD | SHLVL) builtin continue ;;
      esac
      __sandbox_variable
      if [[ ${#FUNCNAME[@]} -gt 3 && ! -R $__sandbox_name ]]; then # a function was left by exit: behind its own is the shell's
        while builtin unset -v "$__sandbox_name" && builtin declare -p "$__sandbox_name" >/dev/null; do __sandbox_variable; done
      fi
    done
  done
  builtin printf 'f\n'; builtin declare -f; builtin printf '\0'
  builtin printf 'd\n'; builtin printf 'builtin cd -- %q' "$PWD"; builtin printf '\0'
  builtin printf 'u\n'; builtin umask -p; builtin printf '\0'
  builtin printf 'a\n'; builtin alias -p; builtin printf '\0'
  builtin printf 't\n'; builtin trap -p; builtin printf '\0'
  builtin printf 'end\n%s\n\0' "$1"
}

__sandbox_variable() { builtin printf 'v%s\n' "$__sandbox_name"; builtin declare -p "$__sandbox_name"; builtin printf '\0'; }

# A script's end is that of its run, not of the shell, which has a trap of its own for when code exits.
trap() {
  { builtin local -; builtin set +x; } 2>/dev/null
  builtin local __sandbox_word __sandbox_own=$#
  if [[ $1$2 == --- ]]; then builtin shift; fi
  if [[ $1 == - && $# -gt 2 ]]; then
    builtin shift
    for __sandbox_word; do trap - "$__sandbox_word"; done
    builtin return
  fi
  for __sandbox_word; do
    case ${__sandbox_word^^} in
    0 | EXIT | SIGEXIT | -P) __sandbox_own=0 ;;
    RETURN)
      if [[ $# == 2 && $1 != - ]]; then # else it would come at the end of this function
        builtin printf -v __sandbox_word 'builtin trap -- %q RETURN' "$1"
        builtin trap -- "$__sandbox_word" RETURN
        builtin return
      fi
      ;;
    ERR | DEBUG)
      if [[ $# == 1 || $1 == - ]]; then # else the one before would be back at the end of this function
        builtin trap -- "[[ \${FUNCNAME-} == trap ]] || builtin trap - $__sandbox_word" "$__sandbox_word"
        builtin return
      fi
      ;;
    esac
  done
  if [[ $__sandbox_own != 0 || $BASHPID != "$$" ]]; then
    builtin trap "$@"
    builtin return
  fi
  builtin trap -- "${__sandbox_trap:--}" EXIT
  builtin trap "$@"
  __sandbox_own=$?
  __sandbox_trap=$(builtin trap -p EXIT)
  if [[ -n $__sandbox_trap ]]; then
    builtin eval "builtin set ${__sandbox_trap#trap}"
    __sandbox_trap=$1
    if [[ $1 == __sandbox_exit* ]]; then __sandbox_trap=; fi # as it was written down
  fi
  builtin trap '__sandbox_exit "$?"' EXIT
  builtin return "$__sandbox_own"
}
builtin trap '__sandbox_exit "$?"' EXIT
builtin declare -fr __sandbox_read __sandbox_check __sandbox_hello __sandbox_trapped __sandbox_return __sandbox_end __sandbox_exit __sandbox_save __sandbox_write __sandbox_variable __sandbox_jobs
builtin declare -r __sandbox_bash __sandbox_loop
