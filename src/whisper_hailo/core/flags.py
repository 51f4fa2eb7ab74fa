"""Command-line flags of options dataclasses, declared with their fields.

A field made with `flag` has its default, its name, its help and its topic in one place. The command
line is built from them, and messages name a field as it is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, TypeVar

from whisper_hailo.core.errors import OptionError

T = TypeVar("T")

ENGINE: Final = "Engine"
"""Topics of help."""

CHIP: Final = "Hailo chip"

CHANNELS: Final = ("mix", "split")
"""All channels mixed, or each as a speaker."""

_FLAG: Final = "flag"
_ONLY: Final = "only"


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field is typed.

    Attributes:
        help: a line; the default and the choices are added to it.
        panel: topic in help; empty: among the everyday options.
        name: with its hyphens; empty: the field's own name.
        short: one letter for it, with its hyphen.
        also: aliases that users of other programs know.
        metavar: placeholder of the value in help.
        shown: the default in help; empty: the default itself, and nothing for `None` and `False`.
        choices: allowed values; empty: any.
        parse: converts the typed value; its `ValueError` says what is expected.
        rare: only `--help-all` lists it.
    """

    help: str
    panel: str = ""
    name: str = ""
    short: str = ""
    also: tuple[str, ...] = ()
    metavar: str = ""
    shown: str = ""
    choices: tuple[str, ...] = ()
    parse: Callable[[str], Any] | None = None
    rare: bool = False


def flag(default: T, help: str, panel: str = "", **how: Any) -> T:  # noqa: A002, ANN401
    """Return a dataclass field with a flag; see `Flag`."""
    return field(default=default, metadata={_FLAG: Flag(help, panel, **how)})


def required_flag(help: str, **how: Any) -> Any:  # noqa: A002, ANN401
    """Return a required dataclass field with a flag; see `Flag`."""
    return field(metadata={_FLAG: Flag(help, **how)})


def option_group(make: Callable[[], T], *only: str) -> T:
    """Return a field that holds a group of options, `only` some of which have flags here."""
    return field(default_factory=make, metadata={_ONLY: only})


def flag_of(one: Field[Any]) -> Flag | None:
    """Return the flag of a field, if it has one."""
    found: Flag | None = one.metadata.get(_FLAG)
    return found


def only_of(one: Field[Any]) -> tuple[str, ...]:
    """Return the fields of a group that have flags here; empty: all."""
    only: tuple[str, ...] = one.metadata.get(_ONLY, ())
    return only


def is_needed(one: Field[Any]) -> bool:
    """Return whether a field has no default."""
    return one.init and one.default is MISSING and one.default_factory is MISSING


def typed_name(one: Field[Any]) -> str:
    """Return how a field is typed, such as `--beam-size`."""
    how = flag_of(one)
    return one.name if how is None else how.name or "--" + one.name.replace("_", "-")


def require_valid(options: Any, name: str, fits: bool, expected: str) -> None:  # noqa: ANN401
    """Raise `OptionError` for the value of a field unless it `fits`."""
    if not fits:
        value = getattr(options, name)
        given = f"{value:g}" if isinstance(value, float) else repr(value)
        if isinstance(value, str) and not value.strip():
            given = "blank"
        typed = next(typed_name(one) for one in fields(options) if one.name == name)
        raise OptionError(f"{typed} is {given}, expected {expected}")


def refuse_unused(options: Any, serves: bool, of: str, *names: str) -> None:  # noqa: ANN401
    """Raise `OptionError` for fields that were given without the option they belong to."""
    for one in () if serves else fields(options):
        if one.name in names and getattr(options, one.name) != one.default:
            raise OptionError(
                f"{typed_name(one)} goes with {of} and has no effect here; leave it out"
            )


def require_choices(options: Any) -> None:  # noqa: ANN401 - a dataclass
    """Refuse values that are not among the choices of their fields."""
    for one in fields(options):
        require_choice(one, getattr(options, one.name))


def require_choice(one: Field[Any], value: object) -> None:
    """Refuse a value that is not among the choices of a field."""
    how = flag_of(one)
    if how is not None and how.choices and isinstance(value, str) and value not in how.choices:
        known = ", ".join(how.choices)
        raise OptionError(f"{typed_name(one)} is {value!r}, expected one of: {known}")


def number_or_none(text: str) -> float | None:
    """Parse a number, or `none`, which switches a threshold off."""
    try:
        return None if text.strip().casefold() == "none" else float(text)
    except ValueError:
        raise ValueError("a number, or none (off)") from None
