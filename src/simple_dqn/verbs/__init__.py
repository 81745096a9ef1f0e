"""The verbs of the command line: a function `verb(arguments, program)` for each."""
