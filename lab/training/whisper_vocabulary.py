"""Whisper's multilingual vocabulary: special ids, and `tokenizer.json` out of its BPE file.

    python -m lab.training.whisper_vocabulary multilingual.tiktoken OUT/tokenizer.json

`multilingual.tiktoken` (MIT) is `whisper/assets/multilingual.tiktoken` of the source package
`openai-whisper`: one token a line, its bytes in base64 and its rank.
"""

import argparse
import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th "
    "ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr "
    "pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt "
    "haw ln ha ba jw su"
)
LANGUAGES = tuple(_LANGUAGES.split())

EOT = 50257
SOT = 50258
FIRST_LANGUAGE = 50259
TRANSLATE, TRANSCRIBE, START_OF_LM, START_OF_PREV, NO_SPEECH, NO_TIMESTAMPS = range(
    50358, 50364
)
FIRST_TIMESTAMP = 50364
N_TIMESTAMPS = 1501
N_VOCAB = 51865
TIMESTAMP_STEP_S = 0.02

_LONG_SIGNS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
_GPT2_PATTERN_IS_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "use_regex": True,
}


def special_tokens() -> dict[str, int]:
    """Returns the 1608 special tokens with their ids, in order of id."""
    names = ["<|endoftext|>", "<|startoftranscript|>"]
    names += [f"<|{code}|>" for code in LANGUAGES]
    names += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"]
    names += ["<|nospeech|>", "<|notimestamps|>"]
    names += [f"<|{k * TIMESTAMP_STEP_S:.2f}|>" for k in range(N_TIMESTAMPS)]
    return {name: EOT + k for k, name in enumerate(names)}


def _byte_letters() -> list[str]:
    """Returns the printable letter that byte-level BPE writes for each of the 256 bytes (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    hidden = [byte for byte in range(256) if byte not in letters]
    letters |= {byte: chr(256 + k) for k, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]


def _split(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """Returns the two tokens whose merge gives `token`: BPE stopped before the last merge."""
    parts = [token[k : k + 1] for k in range(len(token))]
    limit = ranks[token]
    while len(parts) > 2:
        candidates = [
            (ranks.get(a + b, limit), k) for k, (a, b) in enumerate(pairwise(parts))
        ]
        rank, k = min(candidates)
        if rank >= limit:
            break
        parts[k : k + 2] = [parts[k] + parts[k + 1]]
    return parts


def tokenizer_json(tiktoken_file: Path) -> dict[str, Any]:
    """Returns the content of `tokenizer.json` (Hugging Face `tokenizers`, byte-level BPE).

    Raises:
        ValueError: the file does not hold exactly the ranks 0 to 50256.
    """
    rows = [line.split() for line in tiktoken_file.read_bytes().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    if sorted(ranks.values()) != list(range(EOT)):
        raise ValueError(
            f"{tiktoken_file} has {len(ranks)} tokens, expected ranks 0 to {EOT - 1}"
        )
    letters = _byte_letters()

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    merges = []
    for token in sorted(ranks, key=ranks.__getitem__):
        parts = _split(token, ranks) if len(token) > 1 else []
        if len(parts) == 2:
            merges.append([spell(part) for part in parts])
    flags = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": name,
                **flags,
                "special": number < FIRST_TIMESTAMP,
            }
            for name, number in special_tokens().items()
        ],
        "normalizer": None,
        "pre_tokenizer": {**_GPT2_PATTERN_IS_BYTE_LEVEL, "trim_offsets": True},
        "post_processor": None,
        "decoder": {**_GPT2_PATTERN_IS_BYTE_LEVEL, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {spell(token): rank for token, rank in ranks.items()},
            "merges": merges,
        },
    }


def non_speech_ids(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids that Whisper suppresses by default: brackets, notes, speaker signs.

    The list of signs is that of OpenAI's `whisper.tokenizer.Tokenizer.non_speech_tokens`; the
    special ids that must not be sampled follow, as in the published generation configs.
    """
    signs = list('"#()*+/:;<=>@[\\]^_`{|}~「」『』')
    signs += _LONG_SIGNS.split()
    notes = list("♩♪♫♬♭♮♯")
    ids = {tokenizer.encode(text).ids[0] for text in (" -", " '")}
    for sign in signs + notes:
        for text in (sign, " " + sign):
            encoded = tokenizer.encode(text).ids
            if len(encoded) == 1 or sign in notes:
                ids.add(encoded[0])
    never = (SOT, TRANSLATE, TRANSCRIBE, START_OF_LM, START_OF_PREV, NO_SPEECH)
    return [*sorted(ids), *never]


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Writes Whisper's tokenizer.json.")
    parser.add_argument("tiktoken", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    content = tokenizer_json(options.tiktoken)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
