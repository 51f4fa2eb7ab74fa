"""Word error rates of a checkpoint on folders of clips, with counts.

    python -m training.evaluate CHECKPOINT tests/data/micro [--window 10] [--pad-to 1500]

Each set is a folder of `<id>.ogg` (or `.flac`, `.wav`) and `<id>.txt`. Clips are cut to the window.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import jiwer
import numpy as np
import soundfile
import torch
from tokenizers import Tokenizer
from whisper_normalizer.english import EnglishTextNormalizer

from training.decode import greedy, window
from training.kept_tokens import KeptTokens
from training.model import Whisper

POSITIONS_PER_S = 50
N_AUDIO_CTX = 1500
NO_SPEECH_THRESHOLD = 0.6
AUDIO_SUFFIXES = (".ogg", ".flac", ".wav")
_normalize = EnglishTextNormalizer()


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Corpus word error rate in per cent, after Whisper's English normaliser, with its counts."""

    wer: float
    words: int
    substitutions: int
    deletions: int
    insertions: int


def word_errors(references: list[str], hypotheses: list[str]) -> WordErrors:
    """Compares texts of the same order; references must hold words."""
    output = jiwer.process_words(
        [_normalize(text) for text in references], [_normalize(text) for text in hypotheses]
    )
    n_words = output.hits + output.substitutions + output.deletions
    wer = round(100 * output.wer, 2)
    return WordErrors(wer, n_words, output.substitutions, output.deletions, output.insertions)


@dataclass(frozen=True, slots=True)
class Recognizer:
    """A model with all that turns clips into texts.

    Attributes:
        model: trimmed or whole.
        kept: its vocabulary.
        tokenizer: Whisper's.
        window_s: fixed length of the encoder's input.
        pad_to: encoder positions thought of, counting zero rows.
    """

    model: Whisper
    kept: KeptTokens
    tokenizer: Tokenizer
    window_s: float = 10.0
    pad_to: int = N_AUDIO_CTX

    def texts(self, clips: list[np.ndarray], batch: int = 20) -> tuple[list[str], list[float]]:
        """Returns texts and probabilities of no speech of `(n_samples,)` clips."""
        texts: list[str] = []
        silences: list[float] = []
        n_padding = max(0, self.pad_to - round(POSITIONS_PER_S * self.window_s))
        for start in range(0, len(clips), batch):
            windows = [window(clip, self.window_s) for clip in clips[start : start + batch]]
            audio = torch.from_numpy(np.stack(windows))
            tokens, no_speech = greedy(self.model, self.kept, audio, n_padding)
            texts += [self.tokenizer.decode(line).strip() for line in tokens]
            silences += no_speech
        return texts, silences


def shard_error(recognizer: Recognizer, folder: Path, n_clips: int) -> WordErrors:
    """Returns the errors on the first utterances of a folder of shards (see `make_data`)."""
    manifest = min(folder.glob("*.jsonl"))
    pcm = np.memmap(manifest.with_suffix(".pcm"), np.int16, "r")
    lines = manifest.read_text(encoding="utf-8").splitlines()[:n_clips]
    entries = [json.loads(line) for line in lines]
    clips = [np.asarray(pcm[e["offset"] :][: e["n_samples"]]) for e in entries]
    return word_errors([e["text"] for e in entries], recognizer.texts(clips)[0])


def set_report(recognizer: Recognizer, folder: Path) -> dict[str, object]:
    """Returns the figures of one folder of clips: errors, or texts given where there is none."""
    files = sorted(file for file in folder.iterdir() if file.suffix in AUDIO_SUFFIXES)
    references = [file.with_suffix(".txt").read_text(encoding="utf-8").strip() for file in files]
    clips = [soundfile.read(file, dtype="float32")[0] for file in files]
    texts, no_speech = recognizer.texts(clips)
    report: dict[str, object] = {"set": folder.name, "clips": len(files)}
    report["called_silent"] = sum(prob > NO_SPEECH_THRESHOLD for prob in no_speech)
    if any(references):
        report |= asdict(word_errors(references, texts))
    else:
        report["with_text"] = sum(bool(text) for text in texts)
    return report


def main() -> None:
    """Entry point of the command line."""
    from training.checkpoint import load_checkpoint

    parser = argparse.ArgumentParser(description="Measures the word error rate of a checkpoint.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("sets", type=Path, help="folder of folders of clips, or of shards")
    parser.add_argument("--window", type=float, default=10.0, help="seconds")
    parser.add_argument("--pad-to", type=int, default=N_AUDIO_CTX, help="positions")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, kept = load_checkpoint(options.checkpoint)
    tokenizer = Tokenizer.from_file(str(options.checkpoint / "tokenizer.json"))
    recognizer = Recognizer(model, kept, tokenizer, options.window, options.pad_to)
    if any(options.sets.glob("*.pcm")):
        errors = shard_error(recognizer, options.sets, 10_000)
        sys.stdout.write(json.dumps({"set": options.sets.name, **asdict(errors)}) + "\n")
        return
    for folder in sorted(path for path in options.sets.iterdir() if path.is_dir()):
        sys.stdout.write(json.dumps(set_report(recognizer, folder)) + "\n")


if __name__ == "__main__":
    main()
