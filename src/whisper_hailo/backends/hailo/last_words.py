"""A message and the end of the program, as two calls of the C library in one thread.

A timer calls one function with one argument. Two timers, one for each call, would have two threads:
on a busy machine the second may run first, and the program ends without its message. So the timer
calls `setcontext`, which goes on with calls that were prepared before, one after the other.
"""

from __future__ import annotations

import ctypes
from typing import Final

from whisper_hailo.core.errors import ExitCode

LIBC: Final = ctypes.CDLL(None)

_PROGRAM: Final = b"whisper-hailo"
_STACK_BYTES: Final = 64 << 10
"""For a call of `warnx`, with much to spare."""


class _Context(ctypes.Structure):
    """`ucontext_t`, of which the beginning is the same on 64-bit x86 and ARM.

    The rest, saved registers, takes up to 4.5 KiB on ARM.
    """

    _fields_ = (
        ("flags", ctypes.c_ulong),
        ("next", ctypes.c_void_p),
        ("stack", ctypes.c_void_p),
        ("stack_flags", ctypes.c_int),
        ("stack_bytes", ctypes.c_size_t),
        ("rest", ctypes.c_char * 8192),
    )


class LastWords:
    """What is left of the program: a line on standard error, then exit code 6.

    Attributes:
        address: argument of `setcontext`, valid as long as this object.
    """

    def __init__(self, line: str) -> None:
        # `warnx` formats it, and a file name in it may hold a percent sign.
        text = line.replace("%", "%%").encode(errors="backslashreplace")
        self.message = ctypes.create_string_buffer(text)
        ctypes.c_char_p.in_dll(LIBC, "program_invocation_short_name").value = _PROGRAM
        exit_code = ctypes.c_long(ExitCode.DEVICE)
        self._stacks: list[ctypes.Array[ctypes.c_char]] = []
        self._end = self._prepare(LIBC._exit, exit_code, None)
        message = ctypes.c_void_p(ctypes.addressof(self.message))
        self._begin = self._prepare(LIBC.warnx, message, ctypes.addressof(self._end))
        self.address = ctypes.addressof(self._begin)

    def _prepare(
        self, function: object, argument: object, then: int | None
    ) -> _Context:
        """Return a call of a C function, after which the context at `then` goes on."""
        stack = ctypes.create_string_buffer(_STACK_BYTES)
        self._stacks.append(stack)
        context = _Context()
        LIBC.getcontext(ctypes.byref(context))
        context.next = then
        context.stack = ctypes.addressof(stack)
        context.stack_bytes = _STACK_BYTES
        LIBC.makecontext(ctypes.byref(context), function, 1, argument)
        return context
