"""Arrays of PyTorch's files (`.pt`, `pytorch_model.bin`), read without running what is in them.

Such a file is a zip archive: `data.pkl` says which tensor is where, and one entry for each storage
holds its bytes, uncompressed. A pickle is a program, whose instructions may call any function.
Here a small interpreter follows the few instructions that tensors need. It imports nothing, calls
nothing of the file, and refuses every name but those of `_CALLS`. Nothing is copied: an array is a
range of the file.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from whisper_hailo.checkpoint.weights import STORED_DTYPES, StoredArray
from whisper_hailo.core.errors import ModelError, display_path

_STORAGES: Final = {
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    # They hold counters and masks, which no graph needs.
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "DoubleStorage": "F64",
}
"""PyTorch's kinds of storage, and our names of their number formats."""

_MOST_PICKLE_BYTES: Final = 1 << 24
"""A hundred times those of large-v3."""

_LOCAL_HEADER: Final = struct.Struct("<26xHH")
"""The end of an entry's header: lengths of its name and of its further fields."""


def is_torch_file(path: Path) -> bool:
    """Return whether a file is a zip archive, as PyTorch has written since 1.6."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


OLD_FORMAT_ADVICE: Final = (
    "it was saved by PyTorch before 1.6; load and save it with a newer one"
)
"""For a pickle without an archive around it."""


def is_old_torch_file(path: Path) -> bool:
    """Return whether a file begins as a bare pickle, which PyTorch before 1.6 wrote."""
    with path.open("rb") as file:
        return file.read(1) == b"\x80"


def read_tensors(path: Path) -> dict[str, StoredArray]:
    """Return the tensors of a saved `state_dict` by name.

    Raises:
        ModelError: as `read_torch_file`, or no dictionary of tensors.
    """
    try:
        is_old = is_old_torch_file(path)
    except OSError:
        is_old = False  # reading it says more
    if is_old:
        raise ModelError(f"{display_path(path)} cannot be read; {OLD_FORMAT_ADVICE}")
    saved = read_torch_file(path)
    tensors = {}
    if isinstance(saved, dict):
        tensors = select_tensors(saved)
    if not tensors:
        raise ModelError(
            f"{display_path(path)} holds no tensors by name; save the model's state_dict"
        )
    return tensors


def select_tensors(saved: Mapping[Any, Any]) -> dict[str, StoredArray]:
    """Return the tensors of a dictionary, each with its name."""
    return {
        str(name): replace(array, name=str(name))
        for name, array in saved.items()
        if isinstance(array, StoredArray)
    }


def read_torch_file(path: Path) -> Any:  # noqa: ANN401 - whatever was saved
    """Return what was saved: dictionaries, lists, numbers, text, and tensors as `StoredArray`.

    Raises:
        ModelError: no such file, a broken one, or one that holds more than plain data and tensors.
    """
    try:
        with ZipFile(path) as archive:
            return _read_archive(archive, path)
    except OSError as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    except BadZipFile as error:
        raise ModelError(
            f"{display_path(path)} is not a PyTorch file, or is truncated; fetch the file again"
        ) from error
    except _PickleError as error:
        raise ModelError(f"{display_path(path)} {error}") from error


class _PickleError(Exception):
    """The file has unexpected content; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A class or function that a pickle names; it is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class _Storage:
    """Where the bytes of one or more tensors are."""

    path: Path
    dtype: str
    offset: int
    n_bytes: int


def _read_archive(archive: ZipFile, path: Path) -> Any:  # noqa: ANN401 - whatever was saved
    entries = {entry.filename: entry for entry in archive.infolist()}
    names = [name for name in entries if name.endswith("/data.pkl")]
    if len(names) != 1:
        raise _PickleError("is not a PyTorch file: it has no data.pkl")
    folder = names[0].removesuffix("data.pkl")
    order = entries.get(f"{folder}byteorder")
    if order is not None and archive.read(order) != b"little":
        raise _PickleError(
            "was saved on a big-endian machine; save it again on a little-endian one"
        )
    if entries[names[0]].file_size > _MOST_PICKLE_BYTES:
        raise _PickleError("holds more than tensors; save the model's state_dict alone")
    pickle = archive.read(names[0])

    def find_storage(reference: Any) -> _Storage:  # noqa: ANN401 - of any type
        kind, storage_type, key, _, _ = reference
        if kind != "storage" or not isinstance(storage_type, _Name):
            raise _PickleError(f"refers to {kind!r}, expected a storage of numbers")
        dtype = _STORAGES.get(storage_type.name, storage_type.name)
        entry = entries.get(f"{folder}data/{key}")
        if entry is None:
            raise _PickleError("is not complete; fetch the file again")
        return _Storage(path, dtype, _data_offset(path, entry), entry.file_size)

    return _Interpreter(find_storage).run(pickle)


def _data_offset(path: Path, entry: ZipInfo) -> int:
    """Return where the bytes of an entry begin in the archive."""
    if entry.compress_type != ZIP_STORED or entry.flag_bits & 1:
        raise _PickleError("was compressed or encrypted; unpack and save it again")
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        header = file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size:
            raise _PickleError("is not complete; fetch the file again")
        n_name, n_extra = _LOCAL_HEADER.unpack(header)
    return entry.header_offset + _LOCAL_HEADER.size + int(n_name) + int(n_extra)


def _make_tensor(
    storage: Any,  # noqa: ANN401 - checked here
    offset: Any,  # noqa: ANN401
    shape: Any,  # noqa: ANN401
    strides: Any,  # noqa: ANN401
    *_: object,
) -> StoredArray:
    """Return a tensor of `torch._utils._rebuild_tensor_v2`."""
    if not isinstance(storage, _Storage):
        raise _PickleError("has a tensor without numbers; fetch the file again")
    contiguous: list[int] = []
    n_items = 1
    for size in reversed(shape):
        contiguous.insert(0, n_items)
        n_items *= size
    is_row_major = all(
        size == 1 or stride == expected
        for size, stride, expected in zip(shape, strides, contiguous, strict=True)
    )
    if not is_row_major:
        raise _PickleError(
            "has a transposed tensor; save a state_dict of contiguous() tensors"
        )
    stored = STORED_DTYPES.get(storage.dtype)
    start = offset * stored.itemsize if stored is not None else 0
    if stored is not None and start + n_items * stored.itemsize > storage.n_bytes:
        raise _PickleError("is not complete; fetch the file again")
    return StoredArray(
        storage.path, "", storage.dtype, tuple(shape), storage.offset + start
    )


_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "collections.OrderedDict": lambda pairs=(): dict(pairs),
    "torch._utils._rebuild_tensor_v2": _make_tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
}
"""Functions that a pickle may ask for, with ours that stand for them."""


class _Interpreter:
    """Follows the instructions of a pickle on a stack of plain values."""

    def __init__(self, find_storage: Callable[[Any], _Storage]) -> None:
        self._find_storage = find_storage
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickle: bytes) -> Any:  # noqa: ANN401 - whatever was saved
        """Return the value that a pickle describes."""
        try:
            for opcode, argument, _ in pickletools.genops(pickle):
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._follow(opcode.name, argument)
        except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            raise _PickleError(
                f"holds a broken pickle ({error}); fetch the file again"
            ) from error
        raise _PickleError("holds a pickle without an end; fetch the file again")

    def _follow(self, name: str, argument: Any) -> None:  # noqa: ANN401 - of any type
        """Follow one instruction."""
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self, argument)
        elif name not in _IGNORED:
            raise _PickleError(
                f"holds the instruction {name}, which plain tensors do not need, so it is "
                "refused; save the model's state_dict alone"
            )

    def put(self, key: int) -> None:
        """Remember what is on top of the stack."""
        self._memo[key] = self._stack[-1]

    def put_next(self, _: None) -> None:
        """Remember what is on top of the stack, by the next free number."""
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, key: int) -> None:
        """Put a remembered value on the stack."""
        self._stack.append(self._memo[key])

    def mark(self, _: None) -> None:
        """Remember the height of the stack."""
        self._marks.append(len(self._stack))

    def make_tuple(self, count: int | None) -> None:
        """Make a tuple of so many values, or of all since the last mark."""
        if count is None:
            items = self._take_marked()
        else:
            items = self._stack[-count:]
            del self._stack[-count:]
        self._stack.append(tuple(items))

    def set_item(self, _: None) -> None:
        """Add a key and its value to a dictionary."""
        value = self._stack.pop()
        key = self._stack.pop()
        self._stack[-1][key] = value

    def set_items(self, _: None) -> None:
        """Add all keys and values since the last mark to a dictionary."""
        items = self._take_marked()
        self._stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def append(self, _: None) -> None:
        """Add a value to a list."""
        value = self._stack.pop()
        self._stack[-1].append(value)

    def append_all(self, _: None) -> None:
        """Add all values since the last mark to a list."""
        items = self._take_marked()
        self._stack[-1].extend(items)

    def name(self, argument: str) -> None:
        """Name a class or a function."""
        module, _, attribute = argument.partition(" ")
        self._stack.append(_Name(module, attribute))

    def name_of_stack(self, _: None) -> None:
        """Name a class or a function by two texts of the stack."""
        attribute = self._stack.pop()
        module = self._stack.pop()
        self._stack.append(_Name(str(module), str(attribute)))

    def refer(self, _: None) -> None:
        """Put the storage of a reference on the stack."""
        self._stack.append(self._find_storage(self._stack.pop()))

    def call(self, _: None) -> None:
        """Put what stands for a call on the stack; only functions of `_CALLS` are called."""
        arguments = self._stack.pop()
        name = self._stack.pop()
        function = _CALLS.get(str(name)) if isinstance(name, _Name) else None
        if function is None:
            raise _PickleError(
                f"asks for {name}, which could run code, so it is not opened; save the model's "
                "state_dict alone, or as safetensors"
            )
        self._stack.append(function(*arguments))

    def drop(self, _: None) -> None:
        """Drop attributes of a dictionary of tensors, such as its version."""
        self._stack.pop()

    def _take_marked(self) -> list[Any]:
        """Take what was put on the stack since the last mark."""
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        return items


_LITERALS: Final = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "BINFLOAT",
        "BINUNICODE",
        "SHORT_BINUNICODE",
    ]
)
_IGNORED: Final = frozenset({"PROTO", "FRAME"})
"""The version, and the length of what follows."""

_CONSTANTS: Final[Mapping[str, Callable[[], Any]]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_INSTRUCTIONS: Final[Mapping[str, Callable[[_Interpreter, Any], None]]] = {
    "BINPUT": _Interpreter.put,
    "LONG_BINPUT": _Interpreter.put,
    "MEMOIZE": _Interpreter.put_next,
    "BINGET": _Interpreter.get,
    "LONG_BINGET": _Interpreter.get,
    "MARK": _Interpreter.mark,
    "TUPLE": _Interpreter.make_tuple,
    "TUPLE1": lambda interpreter, _: interpreter.make_tuple(1),
    "TUPLE2": lambda interpreter, _: interpreter.make_tuple(2),
    "TUPLE3": lambda interpreter, _: interpreter.make_tuple(3),
    "SETITEM": _Interpreter.set_item,
    "SETITEMS": _Interpreter.set_items,
    "APPEND": _Interpreter.append,
    "APPENDS": _Interpreter.append_all,
    "GLOBAL": _Interpreter.name,
    "STACK_GLOBAL": _Interpreter.name_of_stack,
    "BINPERSID": _Interpreter.refer,
    "REDUCE": _Interpreter.call,
    "BUILD": _Interpreter.drop,
}
"""Opcodes of `pickletools` that tensors need; all others are refused."""
