"""What a caller gave of a dataclass of options, in words of a command line or by name in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect_choice, flag_of, is_needed, only_of, typed_name
from whisper_hailo.core.strict_json import MismatchError, decode

T = TypeVar("T")

_SIMILAR: Final = 0.6


@dataclass(frozen=True, slots=True)
class Given(Generic[T]):
    """What was given of a dataclass of options.

    Attributes:
        kind: the dataclass.
        typed: the values of its fields that were given.
        groups: the same of its fields that are dataclasses.
    """

    kind: type[T]
    typed: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Given[Any]] = field(default_factory=dict)

    def on(self, base: T | None = None) -> T:
        """The options: what was given in the place of what `base` has.

        Args:
            base: `None` has the defaults.

        Raises:
            OptionError: a value out of range, or one that is of use with another option only.
        """
        changes = dict(self.typed)
        for one in fields(self.kind):  # type: ignore[arg-type]
            if one.name in self.groups:
                start = default_of(one) if base is None else getattr(base, one.name)
                start = changes.get(one.name, start)
                changes[one.name] = self.groups[one.name]._in(one, start)
            elif base is None and is_needed(one) and one.name not in changes:
                raise OptionError(f"{typed_name(one)} is missing; see --help")
        return self.kind(**changes) if base is None else replace(base, **changes)  # type: ignore[type-var]

    def _in(self, holder: Field[Any], start: T | bool | None) -> T | None:
        """The options of a field; a switch that is on stands for the defaults of its options."""
        if start is True:
            return self.on()
        if start:
            return self.on(start)
        for one in fields(self.kind):  # type: ignore[arg-type]
            if one.name in self.typed:
                raise OptionError(f"{typed_name(one)} needs {typed_name(holder)}; give both")
        return None


def default_of(one: Field[Any]) -> Any:  # noqa: ANN401 - of any field
    """What a field has where nothing was given."""
    if one.default_factory is not MISSING:
        return one.default_factory()
    return None if one.default is MISSING else one.default


def inner_type(hint: Any) -> Any:  # noqa: ANN401 - a type
    """`T` of the hint `T | None`; any other hint as it is."""
    if get_origin(hint) in (Union, UnionType):
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


def named(kind: type[T], values: dict[str, Any], only: tuple[str, ...] = ()) -> Given[T]:
    """Take what belongs to a dataclass, and to those within it, out of values by name.

    Args:
        kind: the dataclass.
        values: by the name of a field, or as it is typed, with `_` for `-`; those that are taken
            are taken out.
        only: fields that have names here; empty: all.
    """
    typed: dict[str, Any] = {}
    groups: dict[str, Given[Any]] = {}
    hints = hints_of(kind)  # type: ignore[arg-type]  # every class has a hash
    for one in fields(kind):  # type: ignore[arg-type]
        if only and one.name not in only:
            continue
        for name in names_of(one):
            if name in values:
                typed[one.name] = _checked(one, hints[one.name], name, values.pop(name))
        inner = inner_type(hints[one.name])
        if is_dataclass(inner) and isinstance(inner, type):
            groups[one.name] = named(inner, values, only_of(one))
    return Given(kind, typed, groups)


def refuse_unknown(values: Mapping[str, Any], peers: Mapping[str, str], *kinds: type[Any]) -> None:
    """Refuse values that nothing took.

    Raises:
        OptionError: there is one; with the name that was probably meant.
    """
    for name in values:
        if name in peers:
            raise OptionError(f"{name} is of another program; {peers[name]}")
        known = {known for kind in kinds for known in _all_names(kind)}
        similar = get_close_matches(name, sorted(known), 1, _SIMILAR)
        meant = f"did you mean {similar[0]}?" if similar else "see help(Transcriber)"
        raise OptionError(f"there is no option {name}; {meant}")


@cache
def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """Types of the fields, which Python compiles anew whenever it is asked: 5 ms of every call."""
    return get_type_hints(kind)


def names_of(one: Field[Any]) -> tuple[str, ...]:
    """By which a field is known in Python: its own, and those that are typed, without hyphens."""
    how = flag_of(one)
    typed = () if how is None else (typed_name(one), *how.also)
    words = (name.removeprefix("--").replace("-", "_") for name in typed if name.startswith("--"))
    return tuple(dict.fromkeys((one.name, *words)))


def _all_names(kind: type[Any]) -> Iterator[str]:
    hints = hints_of(kind)  # type: ignore[arg-type]
    for one in fields(kind):
        yield from names_of(one)
        inner = inner_type(hints[one.name])
        if is_dataclass(inner) and isinstance(inner, type):
            yield from _all_names(inner)


def _checked(one: Field[Any], hint: Any, name: str, value: Any) -> Any:  # noqa: ANN401 - of any field
    """A value of a field, once it is of the right type."""
    inner = inner_type(hint)
    value = value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value
    if value is None and inner is not hint:
        return None
    try:
        if is_dataclass(inner) and isinstance(inner, type):
            return _group(one, inner, name, value, can_be_off=inner is not hint)
        return _plain(one, inner, name, value)
    except MismatchError as error:
        raise OptionError(f"{error}; see help(Transcriber)") from None
    except ValueError as error:
        raise OptionError(f"{name} is {value!r}, expected {error}") from None


def _group(one: Field[Any], kind: type[Any], name: str, value: Any, *, can_be_off: bool) -> Any:  # noqa: ANN401
    """Options within others: themselves, their name, or whether there are any."""
    if isinstance(value, kind):
        return value
    if can_be_off and isinstance(value, bool):
        return value
    how = flag_of(one)
    if how is not None and how.parse is not None and isinstance(value, str):
        expect_choice(one, value)
        return how.parse(value)
    expected = f"{kind.__name__}(...)" + ", True or False" * can_be_off
    raise MismatchError(f"{name} is {value!r}, expected {expected}")


def _plain(one: Field[Any], kind: Any, name: str, value: Any) -> Any:  # noqa: ANN401 - of any field
    how = flag_of(one)
    if kind is Path:
        return value if isinstance(value, Path) else Path(decode(str, value, name))
    if how is not None and how.parse is not None and isinstance(value, str | list | tuple):
        expect_choice(one, value)
        return how.parse(value if isinstance(value, str) else ",".join(map(str, value)))
    if get_origin(kind) is tuple:
        value = list(value) if isinstance(value, list | tuple) else [value]
    return decode(kind, value, name)
