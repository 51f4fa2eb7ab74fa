"""Tokenizer: text to token ids and back, and the forced prefix of a transcript."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

from whisper_hailo.core.errors import OptionError, TokenizerError, display_path
from whisper_hailo.core.languages import similar_language
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.core.strict_json import (
    MismatchError,
    decode,
    parse_json,
    read_bounded,
)
from whisper_hailo.text.token_table import JoinedTokens, TokenLines

TASKS = ("transcribe", "translate")
TOKENIZER_FILE = "tokenizer.json"

_FEW_LANGUAGES = 10
"""Most languages that a message lists."""

_VOCABULARY: Final = b'"vocab":'
_MERGES: Final = b'"merges":'
"""Keys of a `tokenizer.json`, the second right behind the vocabulary."""

_FIRST_MERGE: Final = ("Ġ", "t")
"""A blank and a t: the first merge of GPT-2's vocabulary, and of all that came from it."""


def _byte_letters() -> dict[str, int]:
    """Return the bytes that GPT-2's letters stand for.

    A byte that prints in Latin-1 is its own letter; the others are letters from 256 on.
    """
    bytes_by_letter = {}
    n_others = 0
    for byte in range(256):
        is_ascii = 0x21 <= byte <= 0x7E
        is_latin = byte >= 0xA1 and byte != 0xAD  # the soft hyphen is invisible
        if is_ascii or is_latin:
            bytes_by_letter[chr(byte)] = byte
        else:
            bytes_by_letter[chr(256 + n_others)] = byte
            n_others += 1
    return bytes_by_letter


BYTES_BY_LETTER: Final = _byte_letters()
"""The byte of each letter in a byte-level vocabulary."""


class Backend(Protocol):
    """The part of the `tokenizers` library's class that is used here."""

    def token_to_id(self, token: str) -> int | None: ...

    def encode(self, sequence: str, *, add_special_tokens: bool) -> Any:  # noqa: ANN401 - its own
        """Return ids of a text, in an object that has them as `ids`."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; incomplete UTF-8 gives U+FFFD."""


@dataclass(frozen=True, eq=False)
class QuickBackend:
    """Decodes ids with the vocabulary of a file alone; encoding loads the library's class.

    Most transcripts never encode anything, and reading a whole `tokenizer.json` takes many times as
    long, and most of the memory for what only encoding needs, the merges above all.

    Attributes:
        tokens: of the text.
        added: ids by the name of added tokens, such as control tokens.
    """

    path: Path
    tokens: TokenLines | JoinedTokens
    added: dict[str, int]

    @classmethod
    def read(cls, path: Path, first_added: int = 0) -> QuickBackend | None:
        """Read a file that is laid out as the `tokenizers` library writes it.

        Return `None` for other layouts and damaged files: the library, which reads all, has better
        messages. Also for tokens that are added below the id `first_added`, among those of the
        text: they have settings, which only the library knows.
        """
        raw = read_bounded(path, TokenizerError)
        if not raw.rstrip().endswith(b"}"):
            return None
        # If a key is missing, or they are in the other order, what lies between is no JSON.
        start = raw.find(_VOCABULARY) + len(_VOCABULARY)
        end = raw.rfind(_MERGES)
        try:
            # An empty vocabulary, and the ends of the two objects that are open there.
            config = parse_json(raw[:start] + b"{}}}")
            model_type = config["model"]["type"]
            decoder_type = config["decoder"]["type"]
            if model_type != "BPE" or decoder_type != "ByteLevel":
                return None
            content = {
                token["content"]: token["id"] for token in config["added_tokens"]
            }
            added = decode(dict[str, int], content)
            if min(added.values(), default=first_added) < first_added:
                return None
            return cls(path, _read_tokens(raw[start:end]), added)
        except (MismatchError, TypeError, LookupError):
            return None

    def token_to_id(self, token: str) -> int | None:
        return self.added.get(token)

    @cached_property
    def _library(self) -> Backend:
        return read_tokenizer(self.path)

    def encode(self, sequence: str, *, add_special_tokens: bool) -> Any:  # noqa: ANN401 - its own
        """Return ids of a text; reading the rest of the file may fail only now."""
        return self._library.encode(sequence, add_special_tokens=add_special_tokens)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ids beyond the vocabulary have none.

        Raises:
            TokenizerError: the text of an id is damaged.
        """
        content = b"".join(self._content_of(token) for token in ids)
        return content.decode(errors="replace")

    def _content_of(self, token: int) -> bytes:
        """Return the bytes of an id."""
        if not 0 <= token < len(self.tokens):
            return b""
        try:
            return _token_bytes(self.tokens.text_of(token))
        except ValueError as error:
            raise TokenizerError(
                f"{display_path(self.path)} is damaged at token {token}; convert the checkpoint "
                "again"
            ) from error


def _token_bytes(letters: str) -> bytes:
    """Return a token's bytes; one with a letter that is no byte stands for itself."""
    try:
        return bytes([BYTES_BY_LETTER[letter] for letter in letters])
    except KeyError:
        return letters.encode(errors="replace")  # JSON can spell half characters


def _read_tokens(raw: bytes) -> TokenLines | JoinedTokens:
    """Read the vocabulary of a file, up to its next key.

    Raises:
        MismatchError: no JSON object of texts and numbers.
        IndexError: ids that no list has.
    """
    vocabulary = raw.strip().rstrip(b",")
    lines = TokenLines.read(vocabulary)
    if lines is not None:
        return lines
    return JoinedTokens.join(decode(dict[str, int], parse_json(vocabulary)))


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A model's `tokenizer.json` together with its control token ids."""

    backend: Backend
    special: SpecialTokens

    @classmethod
    def load(cls, path: Path, special: SpecialTokens) -> Tokenizer:
        """Read a `tokenizer.json`.

        Raises:
            TokenizerError: missing, broken, or of another model than the control token ids.
        """
        if not path.is_file():
            raise TokenizerError(
                f"{display_path(path)} is missing, so tokens cannot be turned into text; convert "
                "the checkpoint again with --tokenizer tokenizer.json"
            )
        backend: Backend | None = QuickBackend.read(path, first_added=special.eot)
        if backend is None:
            backend = read_tokenizer(path)
        control_tokens = {
            "<|startoftranscript|>": special.sot,
            "<|endoftext|>": special.eot,
        }
        for name, expected in control_tokens.items():
            token = backend.token_to_id(name)
            if token is not None and token != expected:
                raise TokenizerError(
                    f"{display_path(path)} has {name} = {token}, the model has {expected}; "
                    "use the tokenizer of the same model"
                )
        return cls(backend, special)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return token ids of plain text, without control tokens."""
        return tuple(self.backend.encode(text, add_special_tokens=False).ids)

    def encode_plain(self, option: str, text: str) -> tuple[int, ...]:
        """Return token ids of an option's words, with a space before the first.

        Raises:
            OptionError: there are none, or the text spells control tokens.
        """
        words = text.strip()
        # Bytes of a command line that are not UTF-8 are lone surrogates, which the library refuses.
        has_surrogates = any("\ud800" <= letter <= "\udfff" for letter in words)
        tokens: tuple[int, ...] = ()
        if not has_surrogates:
            tokens = self.encode(f" {words}")
        if not tokens or max(tokens) >= self.special.eot:
            raise OptionError(
                f"{option} {words[:40]!r} gives no plain tokens in this model's vocabulary; "
                "give ordinary words"
            )
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ids, without control tokens; incomplete UTF-8 gives U+FFFD."""
        text_only = [token for token in tokens if token < self.special.eot]
        return self.backend.decode(text_only)

    def prefix(
        self, language: str, task: str, *, timestamps: bool = False
    ) -> tuple[int, ...]:
        """Return the forced ids that start every transcript.

        Raises:
            OptionError: the model does not know the language or the task.
        """
        special = self.special
        prefix = [special.sot]
        if special.languages:
            task_ids = {
                "transcribe": special.transcribe,
                "translate": special.translate,
            }
            task_id = task_ids.get(task)
            if task_id is None:
                raise OptionError(
                    f"unknown task {task!r}; expected one of: {', '.join(TASKS)}"
                )
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
        similar = similar_language(language, codes)
        question = f"did you mean {similar}? " if similar else ""
        choices = f": {', '.join(codes)}"
        if len(codes) > _FEW_LANGUAGES:
            choices = f" {len(codes)}, by name or code, such as German (de)"
        raise OptionError(
            f"unknown language {language!r}; {question}this model knows{choices}"
        )


def read_tokenizer(path: Path) -> Backend:
    """Read a `tokenizer.json` with the `tokenizers` library.

    Raises:
        TokenizerError: the library cannot read it.
    """
    from tokenizers import Tokenizer as Library

    try:
        backend: Backend = Library.from_file(str(path))
        if _lacks_first_merge(backend):
            backend = Library.from_str(_restore_first_merge(path))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(
            f"{display_path(path)} is not a tokenizer ({error}); convert the checkpoint again"
        ) from error
    return backend


def _lacks_first_merge(backend: Backend) -> bool:
    """Return whether the token of " t" exists, but no merge makes it.

    The published `tokenizer.json` of multilingual checkpoints is so: " the" would be two tokens,
    where these models have only read the one.
    """
    first = backend.token_to_id("".join(_FIRST_MERGE))
    if first is None:
        return False
    encoding = backend.encode(" t", add_special_tokens=False)
    return bool(encoding.ids != [first])


def _restore_first_merge(path: Path) -> str:
    """Return the text of a `tokenizer.json` with the merge that it lacks."""
    layout = parse_json(read_bounded(path, TokenizerError))
    merges = layout["model"]["merges"]
    # Older files have a merge as one string, newer ones as a pair.
    is_pair = bool(merges) and isinstance(merges[0], list)
    first = list(_FIRST_MERGE) if is_pair else " ".join(_FIRST_MERGE)
    merges.insert(0, first)
    return json.dumps(layout)
