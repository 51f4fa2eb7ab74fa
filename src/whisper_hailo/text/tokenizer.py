"""Tokenizer: text to token ids and back, and the forced prefix of a transcript."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Protocol

from whisper_hailo.core.errors import OptionError, TokenizerError, display_path
from whisper_hailo.core.languages import similar_language
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json, read_bounded

TASKS = ("transcribe", "translate")
TOKENIZER_FILE = "tokenizer.json"

_FEW_LANGUAGES = 10
"""Most languages that a message lists."""

_VOCABULARY: Final = b'"vocab":'
_MERGES: Final = b'"merges":'


def _byte_letters() -> dict[str, int]:
    """Return the bytes of GPT-2's letters: themselves where they print, or from letter 256 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in plain)
    shifted = {chr(256 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in plain} | shifted


BYTES_BY_LETTER: Final = _byte_letters()
"""Bytes by their letters in a byte-level vocabulary."""


class Backend(Protocol):
    """The used part of the `tokenizers` library's class."""

    def token_to_id(self, token: str) -> int | None: ...

    def encode(self, sequence: str, *, add_special_tokens: bool) -> Any:  # noqa: ANN401 - its own
        """Return ids of a text, in an object that has them as `ids`."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; incomplete UTF-8 gives U+FFFD."""


@dataclass(frozen=True, eq=False)
class QuickBackend:
    """Decodes ids by the vocabulary of a file alone; encoding loads the library's class.

    The vocabulary is one string, which takes a fifth of the memory. Reading a whole
    `tokenizer.json` takes four times as long and most of the memory for what only encoding needs,
    the merges above all; most transcripts never encode anything.

    Attributes:
        letters: of all tokens, in the order of their ids.
        ends: by token id, the number of letters up to its end.
        added: ids of control tokens and others by name.
    """

    path: Path
    letters: str
    ends: array[int]
    added: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> QuickBackend | None:
        """Read a file that is laid out as the `tokenizers` library writes it.

        `None` is for others and damaged ones: the library, which reads all, has better messages.
        """
        raw = read_bounded(path, TokenizerError)
        if not raw.rstrip().endswith(b"}"):
            return None
        # Where one of both is missing, or they stand the other way round, what lies between is no
        # JSON.
        start = raw.find(_VOCABULARY) + len(_VOCABULARY)
        end = raw.rfind(_MERGES)
        try:
            # The vocabulary stands in the last object but one that is open there.
            around = parse_json(raw[:start] + b"{}}}")
            vocabulary = parse_json(raw[start:end].rstrip().rstrip(b","))
            if (around["model"]["type"], around["decoder"]["type"]) != ("BPE", "ByteLevel"):
                return None
            added = {token["content"]: token["id"] for token in around["added_tokens"]}
            letters = _by_id(decode(dict[str, int], vocabulary))
            ends = array("L", accumulate(map(len, letters)))
            return cls(path, "".join(letters), ends, decode(dict[str, int], added))
        except (MismatchError, TypeError, LookupError):
            return None

    def token_to_id(self, token: str) -> int | None:
        return self.added.get(token)

    @cached_property
    def _library(self) -> Backend:
        return read_tokenizer(self.path)

    def encode(self, sequence: str, *, add_special_tokens: bool) -> Any:  # noqa: ANN401 - its own
        """Return ids of a text; a file may be broken where only encoding needs it."""
        return self._library.encode(sequence, add_special_tokens=add_special_tokens)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ids without a text give none."""
        ends, known = self.ends, [token for token in ids if 0 <= token < len(self.ends)]
        texts = (self.letters[ends[token - 1] if token else 0 : ends[token]] for token in known)
        return b"".join(map(_as_bytes, texts)).decode(errors="replace")


def _as_bytes(letters: str) -> bytes:
    """Return a token's bytes; one with a letter that is no byte stands for itself."""
    try:
        return bytes([BYTES_BY_LETTER[letter] for letter in letters])
    except KeyError:
        return letters.encode(errors="replace")  # JSON can spell half characters


def _by_id(vocabulary: dict[str, int]) -> list[str]:
    """Return names in the order of their ids; raises `IndexError` for implausible ids."""
    if min(vocabulary.values(), default=-1) < 0:
        raise IndexError("no id, or a negative one")
    letters: list[str] = [""] * (2 * len(vocabulary))
    for name, number in vocabulary.items():
        letters[number] = name
    return letters[: 1 + max(vocabulary.values())]


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A model's `tokenizer.json` together with its control token ids."""

    backend: Backend
    special: SpecialTokens

    @classmethod
    def load(cls, path: Path, special: SpecialTokens) -> Tokenizer:
        """Read a `tokenizer.json`."""
        if not path.is_file():
            raise TokenizerError(
                f"{display_path(path)} is missing, so tokens cannot be turned into text; convert "
                "the checkpoint again with --tokenizer tokenizer.json"
            )
        quick = QuickBackend.read(path)
        if quick is None or any(token < special.eot for token in quick.added.values()):
            quick = None  # tokens that are added among the text have settings of their own
        backend: Backend = quick or read_tokenizer(path)
        for name, token in (("<|startoftranscript|>", special.sot), ("<|endoftext|>", special.eot)):
            found = backend.token_to_id(name)
            if found is not None and found != token:
                raise TokenizerError(
                    f"{display_path(path)} has {name} = {found}, the model has {token}; "
                    "use the tokenizer of the same model"
                )
        return cls(backend, special)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return token ids of plain text, without control tokens."""
        return tuple(self.backend.encode(text, add_special_tokens=False).ids)

    def encode_plain(self, option: str, text: str) -> tuple[int, ...]:
        """Return token ids of an option's words, a space before the first."""
        words = text.strip()
        # Bytes that are no UTF-8 come from a command line as lone surrogates, which no text has.
        is_text = not any("\ud800" <= letter <= "\udfff" for letter in words)
        tokens = self.encode(f" {words}") if is_text else ()
        if not tokens or any(token >= self.special.eot for token in tokens):
            raise OptionError(
                f"{option} {words[:40]!r} gives no plain tokens in this model's vocabulary; "
                "give ordinary words"
            )
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ids, without control tokens; incomplete UTF-8 gives U+FFFD."""
        text_only = [token for token in tokens if token < self.special.eot]
        return self.backend.decode(text_only)

    def prefix(self, language: str, task: str, *, timestamps: bool = False) -> tuple[int, ...]:
        """Return the forced ids that start every transcript."""
        special = self.special
        prefix = [special.sot]
        if special.languages:
            task_id = {"transcribe": special.transcribe, "translate": special.translate}.get(task)
            if task_id is None:
                raise OptionError(f"unknown task {task!r}; expected one of: {', '.join(TASKS)}")
            prefix += [self._language_id(language), task_id]
        elif language != "en" or task != "transcribe":
            raise OptionError(
                f"this model only transcribes English, got language {language!r} and task "
                f"{task!r}; use a multilingual model such as tiny"
            )
        if not timestamps and special.no_timestamps is not None:
            prefix.append(special.no_timestamps)
        return tuple(prefix)

    def _language_id(self, language: str) -> int:
        codes = self.special.languages
        if language in codes:
            return codes[language]
        near = similar_language(language, codes)
        meant = f"did you mean {near}? " if near else ""
        known = f": {', '.join(codes)}"
        if len(codes) > _FEW_LANGUAGES:
            known = f" {len(codes)}, by name or code, such as German (de)"
        raise OptionError(f"unknown language {language!r}; {meant}this model knows{known}")


def read_tokenizer(path: Path) -> Backend:
    """Read a `tokenizer.json`."""
    from tokenizers import Tokenizer as Library

    try:
        backend: Backend = Library.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(
            f"{display_path(path)} is no tokenizer ({error}); convert the checkpoint again"
        ) from error
    return backend
