"""HEFs for the stand-in, cut from a model directory's Hailo-form graphs as a compiler would."""

from __future__ import annotations

from pathlib import Path

from tests.standin.cut_graph import Network, cut, hef
from whisper_hailo.core.spec import HailoForm, ModelSpec

__all__ = ["decoder_network", "encoder_network", "hef", "write_hefs"]


def write_hefs(
    model: Path, out: Path, arch: str = "hailo8l", positions: str = "host"
) -> tuple[Path, Path]:
    """An encoder and a decoder HEF.

    Args:
        model: model directory made with `convert --hailo`.
        out: folder to write them to.
        arch: chip.
        positions: who adds the position rows, `host` or `chip`.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = out / f"encoder_{arch}.hef", out / f"decoder_{arch}.hef"
    networks = encoder_network(model), decoder_network(model, positions)
    for path, network in zip(paths, networks, strict=True):
        path.write_bytes(hef(arch, [network]))
    return paths


def encoder_network(model: Path, name: str = "micro-whisper-encoder-10s") -> Network:
    """The encoder, mel as height, width, channels."""
    form = _form(model, "encoder")
    return cut(model / form.file, name, [*form.start_nodes], [*form.end_nodes])


def decoder_network(
    model: Path,
    positions: str = "host",
    name: str = "micro-whisper-decoder-fixed-sequence",
) -> Network:
    """The decoder up to the four chunks, from behind the embedding or from the tokens' rows."""
    form = _form(model, "decoder")
    if positions == "host":
        return cut(model / form.file, name, [*form.start_nodes], [*form.end_nodes])
    starts = [form.start_nodes[0], "tokens"]
    return cut(model / form.file, name, starts, [*form.end_nodes], ("decoder.hidden",))


def _form(model: Path, part: str) -> HailoForm:
    return next(form for form in ModelSpec.load(model).hailo if form.part == part)
