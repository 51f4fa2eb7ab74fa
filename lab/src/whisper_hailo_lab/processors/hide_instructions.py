"""Copy the runtime so that it asks a program of ours for the processor's features.

    python -m whisper_hailo_lab.processors.hide_instructions OUT

That program is `lab/benchmarks/processors/hide_instructions.c`. Every `cpuid` becomes a breakpoint
and a `nop`, which are as long. `OUT` goes first in PYTHONPATH. The instructions are found by
binutils' objdump.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CPUID: Final = b"\x0f\xa2"
BREAKPOINT: Final = b"\xcc\x90"
_PT_LOAD: Final = 1
"""Type of an ELF segment that is loaded into memory."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A loaded segment of an ELF file: position in the file, address and size in memory."""

    offset: int
    address: int
    size: int

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


def replace_cpuid(library: bytes, addresses: list[int]) -> bytes:
    """Return the library with breakpoints at the addresses of its `cpuid` instructions.

    Raises:
        ValueError: one of the addresses holds something else.
    """
    changed = bytearray(library)
    segments = list(_loaded_segments(library))
    for address in addresses:
        offsets = [
            segment.offset + address - segment.address
            for segment in segments
            if segment.holds(address)
        ]
        if len(offsets) != 1 or library[offsets[0] : offsets[0] + 2] != CPUID:
            raise ValueError(f"no cpuid at {address:#x}")
        changed[offsets[0] : offsets[0] + 2] = BREAKPOINT
    return bytes(changed)


def _loaded_segments(library: bytes) -> Iterator[Segment]:
    """Yield the loaded segments of an ELF file (64 bits, little-endian)."""
    (table,) = struct.unpack_from("<Q", library, 32)
    entry_size, count = struct.unpack_from("<HH", library, 54)
    for number in range(count):
        kind, _, offset, address, _, size = struct.unpack_from(
            "<IIQQQQ", library, table + number * entry_size
        )
        if kind == _PT_LOAD:
            yield Segment(offset, address, size)


def find_cpuid(library: Path) -> list[int]:
    """Return the addresses of a library's `cpuid` instructions."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    matches = re.findall(r"^\s*([0-9a-f]+):\tcpuid", listing, re.MULTILINE)
    return [int(address, 16) for address in matches]


def main() -> None:
    """Run the command line."""
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    runtime = find_spec("onnxruntime")
    if runtime is None or runtime.origin is None:
        sys.exit("onnxruntime is not installed")
    shutil.copytree(Path(runtime.origin).parent, out / "onnxruntime")
    (library,) = (out / "onnxruntime" / "capi").glob("onnxruntime_pybind11_state*.so")
    addresses = find_cpuid(library)
    if not addresses:
        sys.exit(f"{library.name} never asks the processor for its features")
    library.write_bytes(replace_cpuid(library.read_bytes(), addresses))


if __name__ == "__main__":
    main()
