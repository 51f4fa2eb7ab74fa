"""Options that a caller gave, on a command line or as keywords, without the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import flag_of, is_needed, only_of, require_choice, typed_name

T = TypeVar("T")

_SIMILAR: Final = 0.6


@dataclass(frozen=True, slots=True)
class PartialOptions(Generic[T]):
    """Some fields of a dataclass of options.

    Attributes:
        kind: the dataclass.
        typed: values of its fields, by name.
        groups: the same for its fields that are dataclasses.
    """

    kind: type[T]
    typed: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, PartialOptions[Any]] = field(default_factory=dict)

    def on(self, base: T | None = None) -> T:
        """Return `base`, or the defaults, with these values.

        Raises:
            OptionError: a value out of range, or one that needs another option.
        """
        changes = dict(self.typed)
        for one in fields(self.kind):  # type: ignore[arg-type]
            if one.name in self.groups:
                start = default_of(one) if base is None else getattr(base, one.name)
                changes[one.name] = self.groups[one.name]._in(one, changes.get(one.name, start))
            elif base is None and is_needed(one) and one.name not in changes:
                raise OptionError(f"{typed_name(one)} is missing; see --help")
        return self.kind(**changes) if base is None else replace(base, **changes)  # type: ignore[type-var]

    def _in(self, holder: Field[Any], start: T | bool | None) -> T | None:
        """Return the options of a field; a switch that is on stands for their defaults."""
        if start:
            return self.on(None if start is True else start)
        for one in self.given():
            raise OptionError(f"{typed_name(one)} needs {typed_name(holder)}; give both")
        return None

    def given(self) -> Iterator[Field[Any]]:
        """Yield the fields with values, those of groups, too."""
        yield from (one for one in fields(self.kind) if one.name in self.typed)  # type: ignore[arg-type]
        for group in self.groups.values():
            yield from group.given()


def default_of(one: Field[Any]) -> Any:  # noqa: ANN401 - of any field
    """Return the default of a field; `None` without one."""
    if one.default_factory is not MISSING:
        return one.default_factory()
    return None if one.default is MISSING else one.default


def inner_type(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return `T` of the hint `T | None`, and any other hint as it is."""
    if get_origin(hint) in (Union, UnionType):
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


_hints_of: Final = cache(get_type_hints)
"""Types of fields by name; Python takes 5 ms a call."""


def option_fields(
    kind: type[Any], only: tuple[str, ...] = ()
) -> Iterator[tuple[Field[Any], Any, type[Any] | None]]:
    """Yield fields (all, or `only` some), their types, and the dataclass that a field holds."""
    hints = _hints_of(kind)  # type: ignore[arg-type]  # every class has a hash
    for one in fields(kind):
        if not only or one.name in only:
            inner = inner_type(hints[one.name])
            held = inner if is_dataclass(inner) and isinstance(inner, type) else None
            yield one, hints[one.name], held


def from_keywords(
    kind: type[T], values: dict[str, Any], only: tuple[str, ...] = ()
) -> PartialOptions[T]:
    """Take a dataclass's options out of keywords: names of fields, or typed ones."""
    return from_typed(kind, values, only, are_keywords=True)


def from_typed(
    kind: type[T], values: dict[str, Any], only: tuple[str, ...] = (), *, are_keywords: bool = False
) -> PartialOptions[T]:
    """Take a dataclass's options, or `only` some, out of parsed ones by typed name."""
    typed: dict[str, Any] = {}
    groups: dict[str, PartialOptions[Any]] = {}
    for one, hint, held in option_fields(kind, only):
        for name in names_of(one) if are_keywords else _typed_identifiers(one):
            if name in values:
                value = values.pop(name)
                typed[one.name] = _checked(one, hint, name, value) if are_keywords else value
        if held is not None:
            groups[one.name] = from_typed(held, values, only_of(one), are_keywords=are_keywords)
    return PartialOptions(kind, typed, groups)


def refuse_unknown(values: Mapping[str, Any], peers: Mapping[str, str], *kinds: type[Any]) -> None:
    """Refuse keywords that no dataclass took, suggesting a similar one."""
    for name in values:
        if name in peers:
            raise OptionError(f"{name} is an option of another program; {peers[name]}")
        known = {known for kind in kinds for known in keyword_names(kind)}
        similar = get_close_matches(name, sorted(known), 1, _SIMILAR)
        meant = f"did you mean {similar[0]}?" if similar else "see help(Transcriber)"
        raise OptionError(f"there is no option {name}; {meant}")


def identifier(option: str) -> str:
    """Return `beam_size` for `--beam-size`."""
    return option.lstrip("-").replace("-", "_")


def _typed_identifiers(one: Field[Any]) -> tuple[str, ...]:
    return () if flag_of(one) is None else (identifier(typed_name(one)),)


def names_of(one: Field[Any]) -> tuple[str, ...]:
    """Return the keywords of a field: its own name, and the long typed ones."""
    how = flag_of(one)
    others = [] if how is None else [identifier(name) for name in how.also if name[:2] == "--"]
    return tuple(dict.fromkeys((one.name, *_typed_identifiers(one), *others)))


def keyword_names(kind: type[Any]) -> Iterator[str]:
    """Yield all keywords of a dataclass and of its groups."""
    for one, _, held in option_fields(kind):
        yield from names_of(one)
        if held is not None:
            yield from keyword_names(held)


def _checked(one: Field[Any], hint: Any, name: str, value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return a value of a field, converted to its type."""
    from whisper_hailo.core.strict_json import MismatchError, decode

    kind, how = inner_type(hint), flag_of(one)
    can_be_none = kind is not hint
    value = value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value
    if value is None and can_be_none:
        return None
    held = is_dataclass(kind) and isinstance(kind, type)
    if held and (isinstance(value, kind) or (can_be_none and isinstance(value, bool))):
        return value
    try:
        if how is not None and how.parse is not None and isinstance(value, str | list | tuple):
            require_choice(one, value)
            return how.parse(value if isinstance(value, str) else ",".join(map(str, value)))
        if held:
            expected = f"{kind.__name__}(...)" + ", True or False" * can_be_none
            raise MismatchError(f"{name} is {value!r}, expected {expected}")
        if kind is Path:
            return value if isinstance(value, Path) else Path(decode(str, value, name))
        if get_origin(kind) is tuple:
            value = list(value) if isinstance(value, list | tuple) else [value]
        return decode(kind, value, name)
    except MismatchError as error:
        raise OptionError(f"{error}; see help(Transcriber)") from None
    except ValueError as error:
        raise OptionError(f"{name} is {value!r}, expected {error}") from None
