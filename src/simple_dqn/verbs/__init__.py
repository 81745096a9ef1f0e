"""The verbs of the command line: a module for each, with a `main(arguments, program)`."""
