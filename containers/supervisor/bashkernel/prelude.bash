# What each bash of a kernel is told first, and what code may see of this program.
builtin shopt -s expand_aliases
__sandbox_bash=$BASH

# A script's end is that of its run, not of the shell, which has a trap of its own for when code exits.
trap() {
  { builtin local -; builtin set +ux; } 2>/dev/null
  builtin mapfile -d '' -t __sandbox_text </dev/fd/249
  builtin eval "$__sandbox_text"
  __sandbox_set_trap "$@"
  builtin set -- "$?"
  __sandbox_leave
  builtin return "$1"
}

# A program that is ended before it is more than a copy of the shell comes here too: a command would have bash wait for itself.
__sandbox_own_trap='case ${BASHPID-$$} in "$$") __sandbox_status=$? __sandbox_last=$BASH_COMMAND; [[ ${FUNCNAME-} ]] || __sandbox_args=("$@"); builtin mapfile -d "" -t __sandbox_text </dev/fd/249; builtin eval "$__sandbox_text"; __sandbox_exit "$__sandbox_status" ;; esac &>/dev/null'
builtin trap "$__sandbox_own_trap" EXIT
