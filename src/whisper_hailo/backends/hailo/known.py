"""HEFs that the vendor publishes for its speech recognition example, and where fetched ones lie.

Addresses: `download_resources.py` of `hailo-ai/hailo-apps`
(`hailo_apps/python/standalone_apps/speech_recognition/app`), commit 80f0b60, read in a stored copy:
that they still answer was not verified here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.core.files import cache_root
from whisper_hailo.core.spec import ModelSpec

PLACE: Final = "https://hailo-csdata.s3.eu-west-2.amazonaws.com/resources/"
_HEFS, _ASSETS = "whisper", "npy%20files/whisper/decoder_assets"
_FOLDERS: Final = {"hailo8": "h8", "hailo8l": "h8l", "hailo10h": "h10h"}
_SPLIT: Final = "whisper-decoder-fixed-sequence-matmul-split"


@dataclass(frozen=True, slots=True)
class KnownHefs:
    """A published pair.

    Attributes:
        arch: chip.
        variant: `tiny`, `tiny.en` or `base`.
        encoder: file name of the encoder.
        decoder: file name of the decoder.
        window_s: seconds of the encoder's window.
        length: text positions of the decoder.
    """

    arch: str
    variant: str
    encoder: str
    decoder: str
    window_s: int
    length: int

    @property
    def folder(self) -> Path:
        """Where they are kept after fetching."""
        return cache_root() / "hefs" / self.arch / self.variant

    @property
    def assets(self) -> tuple[str, str]:
        """File names of the arrays that the decoder's host needs."""
        return f"token_embedding_weight_{self.variant}.npy", f"onnx_add_input_{self.variant}.npy"

    def files(self) -> dict[str, str]:
        """Path below `folder` to path below `PLACE`."""
        hefs = f"{_HEFS}/{_FOLDERS[self.arch]}"
        inner = f"{self.variant}/decoder_tokenization"
        return {
            self.encoder: f"{hefs}/{self.encoder}",
            self.decoder: f"{hefs}/{self.decoder}",
            **{
                f"decoder_assets/{inner}/{name}": f"{_ASSETS}/{inner}/{name}"
                for name in self.assets
            },
        }


KNOWN: Final = (
    KnownHefs("hailo8", "tiny", "tiny-whisper-encoder-10s_15dB.hef", f"tiny-{_SPLIT}.hef", 10, 32),
    KnownHefs("hailo8", "base", "base-whisper-encoder-5s.hef", f"base-{_SPLIT}.hef", 5, 24),
    KnownHefs(
        "hailo8l", "tiny", "tiny-whisper-encoder-10s_15dB_h8l.hef", f"tiny-{_SPLIT}_h8l.hef", 10, 32
    ),
    KnownHefs(
        "hailo8l", "base", "base-whisper-encoder-5s_h8l.hef", f"base-{_SPLIT}_h8l.hef", 5, 24
    ),
    KnownHefs(
        *("hailo10h", "tiny", "tiny-whisper-encoder-10s.hef"),
        *("tiny-whisper-decoder-fixed-sequence.hef", 10, 32),
    ),
    KnownHefs(
        *("hailo10h", "tiny.en", "tiny_en-whisper-encoder-10s.hef"),
        *("tiny_en-whisper-decoder-fixed-sequence.hef", 10, 32),
    ),
    KnownHefs(
        *("hailo10h", "base", "base-whisper-encoder-10s.hef"),
        *("base-whisper-decoder-10s-out-seq-64.hef", 10, 64),
    ),
)


def find_known(arch: str, variant: str) -> KnownHefs | None:
    """The published pair for a chip and a model."""
    found = [known for known in KNOWN if (known.arch, known.variant) == (arch, variant)]
    return found[0] if found else None


def fetched(spec: ModelSpec, arch: str, part: str) -> Path | None:
    """A HEF that was fetched and is of exactly this model.

    The vendor's are of OpenAI's checkpoints: a fine-tuned model of the same size is another model.

    Args:
        spec: the model.
        arch: chip of this machine.
        part: `encoder` or `decoder`.
    """
    for known in KNOWN:
        if known.arch == arch and spec.source.name == f"openai/whisper-{known.variant}":
            path = known.folder / (known.encoder if part == "encoder" else known.decoder)
            return path if path.is_file() else None
    return None
