"""What a user can ask for: one module a verb, each with a `main(arguments, program)`."""
