"""Instructions of a step of CTranslate2's decoder.

    python -m whisper_hailo_lab.processors.steps_ctranslate2 MODEL COUNTER

It owns its loop, so a step is a share of the difference between many tokens and few.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import ctranslate2
import numpy as np

from whisper_hailo.cli.streams import emit_json
from whisper_hailo_lab.processors.counter import counter

MANY, FEW = 12, 4
PROMPT = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")


def main() -> None:
    """Entry point of the command line."""
    read = counter(Path(sys.argv[2]))
    model = ctranslate2.models.Whisper(sys.argv[1], compute_type="int8", intra_threads=1)
    drawn = np.random.default_rng(0).standard_normal((1, 500, 384)).astype(np.float32)
    features = ctranslate2.StorageView.from_array(drawn)

    def generate(tokens: int) -> int:
        before = read()
        length = max(2 * tokens, tokens + len(PROMPT))
        found = model.generate(features, [list(PROMPT)], beam_size=1, max_length=length)
        taken, made = read() - before, len(found[0].sequences_ids[0])
        if made != tokens:
            sys.exit(f"CTranslate2 made {made} tokens, expected {tokens}")
        return taken

    generate(FEW)
    step = (generate(MANY) - generate(FEW)) // (MANY - FEW)
    told = {"machine": platform.machine(), "model": "ctranslate2-int8", "instructions": step}
    emit_json(told)


if __name__ == "__main__":
    main()
