"""The tokenizers of OpenAI's checkpoints, for files that hold none or only its tokens.

There are two vocabularies, English and multilingual. Control tokens follow the ordinary ones; how
many there are depends on the languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.checkpoint.openai_layout import control_tokens
from whisper_hailo.core.errors import ModelError, TokenizerError, display_path
from whisper_hailo.core.strict_json import read_json_object
from whisper_hailo.text.tokenizer import BYTES_BY_LETTER

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NO_SPEECH_SYMBOLS: Final = (
    '" # ( ) * + / : ; < = > @ [ \\ ] ^ _ ` { | } ~ 「 」 『 』 '
    "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
)
_MUSIC: Final = "♩♪♫♬♭♮♯"
"""Their tokens begin with bytes that only symbols have."""

_CONTROLS_NEVER_WRITTEN: Final = (
    "<|transcribe|>",
    "<|translate|>",
    "<|startoftranscript|>",
    "<|startofprev|>",
    "<|startoflm|>",
    "<|nospeech|>",
)


def tokenizer_of_tokens(tokens: Sequence[bytes], n_vocab: int) -> str:
    """Return a `tokenizer.json` of ordinary tokens in the order of their ids.

    Which pairs are merged follows from the order: a token was made of two earlier ones.
    """
    ranks = {token: rank for rank, token in enumerate(tokens)}
    letters = {byte: letter for letter, byte in BYTES_BY_LETTER.items()}

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges = []
    for token, rank in ranks.items():
        if len(token) > 1:
            parts = _split_token(token, ranks, rank)
            if len(parts) != 2:
                raise TokenizerError(
                    f"token {rank} is not made of two earlier ones; fetch the file again"
                )
            merges.append((spell(parts[0]), spell(parts[1])))
    vocabulary = {spell(token): rank for token, rank in ranks.items()}
    return _build(vocabulary, merges, n_vocab)


def ordinary_tokens(tokenizer: Path) -> list[bytes]:
    """Return the bytes of the ordinary tokens of a `tokenizer.json`, in the order of their ids.

    Its merges are not needed, and published ones lack some.
    """
    raw: Any = read_json_object(tokenizer, TokenizerError)
    try:
        vocabulary = raw["model"]["vocab"]
        ordinary = [text for text in vocabulary if not text.startswith("<|")]
        ordinary.sort(key=vocabulary.__getitem__)
        return [bytes(BYTES_BY_LETTER[letter] for letter in text) for text in ordinary]
    except (AttributeError, KeyError, TypeError) as error:
        raise TokenizerError(
            f"{display_path(tokenizer)} is not a byte-level tokenizer.json"
        ) from error


def _build(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, ...]], n_vocab: int
) -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    controls = control_tokens(n_vocab)
    if len(vocabulary) + len(controls) != n_vocab:
        raise ModelError(
            f"the file has {len(vocabulary)} ordinary tokens, its arrays have {n_vocab}; fetch it "
            "again, or give --tokenizer"
        )
    tokenizer = Tokenizer(models.BPE(dict(vocabulary), list(merges)))  # type: ignore[arg-type]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(controls)
    return str(tokenizer.to_str())


def _split_token(
    token: bytes, ranks: Mapping[bytes, int], own_rank: int
) -> list[bytes]:
    """Return the parts that merges of earlier tokens leave of a token."""
    parts = [token[index : index + 1] for index in range(len(token))]
    while True:
        best_rank = own_rank
        best = -1
        for index in range(len(parts) - 1):
            rank = ranks.get(parts[index] + parts[index + 1], own_rank)
            if rank < best_rank:
                best_rank = rank
                best = index
        if best < 0:
            return parts
        parts[best : best + 2] = [parts[best] + parts[best + 1]]


def suppressed_tokens(tokenizer_file: Path) -> dict[str, list[int]]:
    """Return the ids that OpenAI's program suppresses, as a generation config has them.

    Source: openai/whisper, `non_speech_tokens` and `_get_suppress_tokens`.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:  # the library raises bare Exception for broken files
        raise TokenizerError(
            f"{display_path(tokenizer_file)} is not a tokenizer.json ({error})"
        ) from error
    ids = {_encode(tokenizer, " -")[0], _encode(tokenizer, " '")[0]}
    for symbol in [*_NO_SPEECH_SYMBOLS.split(" "), *_MUSIC]:
        for text in (symbol, f" {symbol}"):
            tokens = _encode(tokenizer, text)
            if len(tokens) == 1 or symbol in _MUSIC:
                ids.add(tokens[0])
    controls = [tokenizer.token_to_id(name) for name in _CONTROLS_NEVER_WRITTEN]
    ids.update(index for index in controls if index is not None)
    blank = _encode(tokenizer, " ")
    end = tokenizer.token_to_id("<|endoftext|>")
    if end is not None:
        blank.append(end)
    return {"suppress_tokens": sorted(ids), "begin_suppress_tokens": blank}


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids
