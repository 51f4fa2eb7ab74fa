"""A copy of the runtime that asks a program of ours what the processor can do.

    python -m whisper_hailo_lab.processors.hide_instructions OUT

That is `lab/benchmarks/processors/hide_instructions.c`. Every `cpuid` becomes a breakpoint and a
`nop`, which are as long. `OUT` goes before all else in PYTHONPATH. The instructions are found by
binutils' objdump.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

CPUID, BREAKPOINT = b"\x0f\xa2", b"\xcc\x90"
LOADED = 1
"""A segment of an ELF file that is loaded into memory."""


def without_cpuid(library: bytes, addresses: list[int]) -> bytes:
    """The library with breakpoints at the addresses of its `cpuid` instructions.

    Raises:
        ValueError: one of the addresses holds something else.
    """
    changed = bytearray(library)
    segments = list(_segments(library))
    for address in addresses:
        places = [
            address - start + at for at, start, size in segments if start <= address < start + size
        ]
        if len(places) != 1 or library[places[0] : places[0] + 2] != CPUID:
            raise ValueError(f"no cpuid at {address:#x}")
        changed[places[0] : places[0] + 2] = BREAKPOINT
    return bytes(changed)


def _segments(library: bytes) -> Iterator[tuple[int, int, int]]:
    """Place in the file, address and size of what is loaded (ELF, 64 bits, little-endian)."""
    (table,) = struct.unpack_from("<Q", library, 32)
    entry_size, count = struct.unpack_from("<HH", library, 54)
    for number in range(count):
        kind, _, at, start, _, size = struct.unpack_from(
            "<IIQQQQ", library, table + number * entry_size
        )
        if kind == LOADED:
            yield at, start, size


def addresses_of_cpuid(library: Path) -> list[int]:
    """Where a library asks the processor."""
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    return [
        int(found, 16) for found in re.findall(r"^\s*([0-9a-f]+):\tcpuid", listing, re.MULTILINE)
    ]


def main() -> None:
    """Entry point of the command line."""
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    runtime = find_spec("onnxruntime")
    if runtime is None or runtime.origin is None:
        sys.exit("onnxruntime is not installed")
    shutil.copytree(Path(runtime.origin).parent, out / "onnxruntime")
    (library,) = (out / "onnxruntime" / "capi").glob("onnxruntime_pybind11_state*.so")
    found = addresses_of_cpuid(library)
    if not found:
        sys.exit(f"{library.name} never asks the processor what it can do")
    library.write_bytes(without_cpuid(library.read_bytes(), found))


if __name__ == "__main__":
    main()
