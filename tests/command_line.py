"""Verbs that go no further than their command line."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

from simple_dqn.flags import Parser
from simple_dqn.main import VERBS


class ReadError(Exception):
    """A command line was read without a complaint; what would have followed is left out."""

    def __init__(self, parser: argparse.ArgumentParser, given: dict[str, Any]) -> None:
        super().__init__(f"{parser.prog} was read")
        self.parser, self.given = parser, given


@contextmanager
def only_reading() -> Iterator[None]:
    """Let every parser that reads a whole command line raise `ReadError` once it has."""
    parse, parse_args = Parser.parse, argparse.ArgumentParser.parse_args

    def end_parse(parser: Parser, arguments: Sequence[str]) -> dict[str, Any]:
        raise ReadError(parser, parse(parser, arguments))

    def end_parse_args(parser: argparse.ArgumentParser, arguments: Any = None) -> argparse.Namespace:
        raise ReadError(parser, vars(parse_args(parser, arguments)))

    with (
        patch.object(Parser, "parse", end_parse),
        patch.object(argparse.ArgumentParser, "parse_args", end_parse_args),
    ):
        yield


def read(verb: str, arguments: Sequence[str]) -> ReadError:
    """Return what `verb` reads in `arguments`, by its own parser.

    Raises:
        UserError: It refuses them.
        SystemExit: They ask for help.
    """
    module, told = VERBS[verb]
    with only_reading():
        try:
            import_module(module).main(arguments, f"./{verb}.sh", **told)
        except ReadError as outcome:
            return outcome
    raise AssertionError(f"{verb} read nothing")
