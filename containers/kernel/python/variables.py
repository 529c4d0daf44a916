"""Which names of the namespace are the user's: not Python's, not IPython's."""

import re

# Names that Python and IPython set anew, and throw-away names.
_NOBODYS = re.compile(r"_{1,3}|_i{1,3}|_i\d+|_exit_code|__(builtins?|annotations|annotate|conditional_annotations|warningregistry)__")


def user_names(namespace, hidden):
    """The names that code set. hidden holds the others, which count if code gave them another value."""
    return [
        name
        for name, value in list(namespace.items())
        if isinstance(name, str) and not _NOBODYS.fullmatch(name) and not (name in hidden and hidden[name] is value)
    ]
