"""Which names of the namespace are the user's: not Python's, not IPython's."""

import re

# What either engine remembers of cells, and a name that is there to be thrown away.
_REMEMBERED = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|__\w+__|_[iod]h|_exit_code|In|Out|get_ipython")


def user_names(namespace, hidden):
    """The names that code has set. hidden has those of the shell, which count where code has given them another value."""
    return [
        name
        for name, value in list(namespace.items())
        if isinstance(name, str) and not _REMEMBERED.fullmatch(name) and not (name in hidden and hidden[name] is value)
    ]
