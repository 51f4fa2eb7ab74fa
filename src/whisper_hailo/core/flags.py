"""How a field of an options dataclass is typed on a command line, declared where the field is.

A field made with `flag` has its default, its name, its help and its topic in one place. The command
line is built from them, and messages about a field name it as it is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, TypeVar

from whisper_hailo.core.errors import OptionError

T = TypeVar("T")

ENGINE: Final = "Engine"
"""Topic of what chooses encoder and decoder."""

CHIP: Final = "Hailo chip"
"""Topic of how a chip is used."""

CHANNELS: Final = ("mix", "split")
"""What becomes of the channels of a recording; split: each is a speaker."""

_FLAG: Final = "flag"
_ONLY: Final = "only"


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field is typed.

    Attributes:
        help: a line; the default and the choices are added to it.
        name: with its hyphens; empty: the field's or the parameter's own name.
        panel: topic that help shows it under; empty: among the everyday options.
        short: one letter for it, with its hyphen.
        also: names that users of other programs know.
        metavar: what stands for the value in help.
        shown: what stands for the default in help; empty: the default itself, and nothing for
            `None` and `False`.
        choices: the values that are taken; empty: any.
        parse: makes the value from what was typed; its `ValueError` says what is expected.
    """

    help: str
    name: str = ""
    panel: str = ""
    short: str = ""
    also: tuple[str, ...] = ()
    metavar: str = ""
    shown: str = ""
    choices: tuple[str, ...] = ()
    parse: Callable[[str], Any] | None = None


def flag(
    default: T,
    help: str,  # noqa: A002 - the word for it
    panel: str = "",
    *,
    name: str = "",
    short: str = "",
    also: tuple[str, ...] = (),
    metavar: str = "",
    shown: str = "",
    choices: tuple[str, ...] = (),
    parse: Callable[[str], Any] | None = None,
) -> T:
    """A field of a dataclass that has a flag; see `Flag`."""
    how = Flag(help, name, panel, short, also, metavar, shown, choices, parse)
    return field(default=default, metadata={_FLAG: how})


def needed(
    help: str,  # noqa: A002 - the word for it
    *,
    metavar: str = "",
    choices: tuple[str, ...] = (),
) -> Any:  # noqa: ANN401 - of the type that the field says
    """A field of a dataclass that has a flag and no default; see `Flag`."""
    return field(metadata={_FLAG: Flag(help, metavar=metavar, choices=choices)})


def group(make: Callable[[], T], *only: str) -> T:
    """A field that holds options of its own.

    Args:
        make: its default.
        only: those of its fields that have flags here; all of them, where none is named.
    """
    return field(default_factory=make, metadata={_ONLY: only})


def flag_of(one: Field[Any]) -> Flag | None:
    """The flag of a field, if it has one."""
    found: Flag | None = one.metadata.get(_FLAG)
    return found


def is_needed(one: Field[Any]) -> bool:
    """Whether a field has no default."""
    return one.init and one.default is MISSING and one.default_factory is MISSING


def only_of(one: Field[Any]) -> tuple[str, ...]:
    """Fields of a group that have flags here; empty: all."""
    only: tuple[str, ...] = one.metadata.get(_ONLY, ())
    return only


def typed_name(one: Field[Any]) -> str:
    """How a field is typed, such as `--beam-size`; without a flag it has only its own name."""
    how = flag_of(one)
    return one.name if how is None else how.name or "--" + one.name.replace("_", "-")


def expect(options: object, name: str, fits: bool, expected: str) -> None:
    """Refuse the value of a field.

    Args:
        options: an instance of a dataclass.
        name: of its field.
        fits: whether the value may stay.
        expected: what it should be, for the message.

    Raises:
        OptionError: it does not fit.
    """
    if not fits:
        one = next(one for one in fields(options) if one.name == name)  # type: ignore[arg-type]
        value = getattr(options, name)
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        if isinstance(value, str) and not value.strip():
            given = "blank"
        raise OptionError(f"{typed_name(one)} is {given}, expected {expected}")


def refuse_idle(options: object, name: str, serves: bool, of: str) -> None:
    """Refuse a field that was given and has no effect.

    Args:
        options: an instance of a dataclass.
        name: of its field.
        serves: it has one.
        of: what it goes with, for the message.

    Raises:
        OptionError: it was given in vain.
    """
    one = next(one for one in fields(options) if one.name == name)  # type: ignore[arg-type]
    if not serves and getattr(options, name) != one.default:
        raise OptionError(f"{typed_name(one)} goes with {of} and has no effect here; leave it out")


def expect_choices(options: object) -> None:
    """Refuse names that are none of the choices of their fields."""
    for one in fields(options):  # type: ignore[arg-type]
        expect_choice(one, getattr(options, one.name))


def expect_choice(one: Field[Any], value: object) -> None:
    """Refuse a name that is none of the choices of a field.

    Raises:
        OptionError: so it is.
    """
    how = flag_of(one)
    if how is not None and how.choices and isinstance(value, str) and value not in how.choices:
        known = ", ".join(how.choices)
        raise OptionError(f"{typed_name(one)} is {value!r}, expected one of: {known}")


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds, for `Flag.parse`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"a whole number, {least} to {most}")
        return number

    return parse


def number_or_none(text: str) -> float | None:
    """Parse a number; `none`, in any case, switches off what it is for.

    Raises:
        ValueError: neither.
    """
    if text.strip().casefold() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number, or none (off)") from None
