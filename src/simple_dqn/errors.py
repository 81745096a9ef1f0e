"""The one kind of error that a user is meant to read."""


class UserError(Exception):
    """Something the user gave cannot be used.

    The message is one line: what is wrong, then what to do.
    `main` prints it without a traceback and ends with exit code 2.
    """
