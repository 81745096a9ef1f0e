"""A reader of pickles that contain dicts, lists, numbers, strings and numpy arrays.

Python's unpickler calls functions that the file names. This one calls none: it interprets the instructions
with a stack of its own, and represents each array as a `PickledArray`. It reads protocols 0 to 4, as Python
2 and 3 write them with numpy 1 or 2.
"""

import pickletools
from collections.abc import Callable
from io import BytesIO
from typing import Any, TypeAlias

from simple_dqn.snapshot.neon import pickled_array
from simple_dqn.snapshot.neon.pickled_array import RefusedError

MOST_INSTRUCTIONS = 20_000  # Neon's own files have about 1,000
OPCODES = {opcode.code.encode("latin1"): opcode for opcode in pickletools.opcodes}
IGNORED = frozenset(("PROTO", "FRAME"))


def load(content: bytes) -> Any:
    """Return the value of the pickle `content`, with a `PickledArray` for each array.

    Raises:
        RefusedError: It contains something else.
        ValueError, TypeError, LookupError, AttributeError: It is damaged, or not a pickle.
    """
    file, machine = BytesIO(content), _Machine()
    for _ in range(MOST_INSTRUCTIONS):
        opcode = OPCODES.get(file.read(1))
        if opcode is None:
            raise ValueError("no pickle, or it is cut short")
        argument = _argument(opcode, file)
        if opcode.name == "STOP":
            return machine.stack.pop()
        if opcode.name in HANDLERS:
            HANDLERS[opcode.name](machine, argument)
        elif opcode.name not in IGNORED:
            asked = f"{opcode.name} {argument}" if isinstance(argument, str) else opcode.name
            raise RefusedError(f"the pickle instruction {asked}")
    raise ValueError(f"more than {MOST_INSTRUCTIONS} instructions")


def _argument(opcode: pickletools.OpcodeInfo, file: BytesIO) -> Any:
    if opcode.name == "STRING":  # Python 2's bytes, of which pickletools reads only ASCII
        return file.readline().strip()[1:-1].decode("unicode_escape")
    return opcode.arg.reader(file) if opcode.arg else None


class _Machine:
    """The stack machine whose program a pickle is."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks below each mark
        self._memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self) -> None:
        self._below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._below.pop()
        return items

    def last(self, count: int) -> list[Any]:
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def put(self, key: int | None) -> None:
        self._memo[len(self._memo) if key is None else key] = self.stack[-1]

    def get(self, key: int) -> None:
        self.push(self._memo[key])

    def fill(self, target: Any, items: list[Any]) -> None:
        """Put keys and values, in turns, in the dict `target`."""
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Hashing nested tuples can take unlimited time, or overflow the C stack.
            if type(target) is not dict or type(key) not in (str, int):
                raise TypeError("a key that is no word and no number")
            target[key] = value

    def extend(self, target: Any, items: list[Any]) -> None:
        if type(target) is not list:
            raise TypeError("items of something that is no list")
        target.extend(items)

    def make_dict(self, _argument: None) -> None:
        items, target = self.since_mark(), dict[Any, Any]()
        self.fill(target, items)
        self.push(target)

    def find_on_stack(self, _argument: None) -> None:
        module, name = self.last(2)
        self.push(pickled_array.find(f"{module}.{name}" if type(module) is type(name) is str else "no name"))

    def call(self, _argument: None) -> None:
        function, arguments = self.last(2)
        self.push(pickled_array.call(function, arguments))

    def build(self, _argument: None) -> None:
        state = self.stack.pop()
        pickled_array.complete(self.stack[-1], state)


LITERALS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
    *("SHORT_BINBYTES", "BINBYTES"),
)
Handler: TypeAlias = Callable[[_Machine, Any], None]
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(LITERALS, _Machine.push),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "MARK": lambda machine, _: machine.mark(),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "DICT": _Machine.make_dict,
    "LIST": lambda machine, _: machine.push(machine.since_mark()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.last(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.last(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.last(3))),
    "SETITEM": lambda machine, _: machine.fill(items=machine.last(2), target=machine.stack[-1]),
    "SETITEMS": lambda machine, _: machine.fill(items=machine.since_mark(), target=machine.stack[-1]),
    "APPEND": lambda machine, _: machine.extend(items=machine.last(1), target=machine.stack[-1]),
    "APPENDS": lambda machine, _: machine.extend(items=machine.since_mark(), target=machine.stack[-1]),
    "GLOBAL": lambda machine, words: machine.push(pickled_array.find(words.replace(" ", ".", 1))),
    "STACK_GLOBAL": _Machine.find_on_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
}
