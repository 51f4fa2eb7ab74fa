"""Which graphs of an Optimum export to run, and what each of their inputs and outputs is.

Exports differ: two graphs or one with a branch, a cache position or none, encoder features also
where they are not needed. So nothing is assumed: names are looked at, and unknown ones refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.signature import Port, Signature, read_signature
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import ModelSpec

FIRST, LATER, MERGED = "decoder_model", "decoder_with_past_model", "decoder_model_merged"
PAST: Final = re.compile(r"past_key_values\.(\d+)\.(decoder|encoder)\.(key|value)")
PRESENT: Final = re.compile(r"present\.(\d+)\.(decoder|encoder)\.(key|value)")
IDS: Final = ("input_ids", "decoder_input_ids")
FEATURES: Final = "encoder_hidden_states"
BRANCH: Final = "use_cache_branch"
PLACES: Final = ("cache_position", "position_ids", "decoder_position_ids")
TEXT_MASKS: Final = ("attention_mask", "decoder_attention_mask")
AUDIO_MASK: Final = "encoder_attention_mask"
_KNOWN: Final = frozenset({*IDS, FEATURES, BRANCH, *PLACES, *TEXT_MASKS, AUDIO_MASK})
_AGAIN: Final = "export it with --task automatic-speech-recognition-with-past"


@dataclass(frozen=True, slots=True)
class OptimumGraphs:
    """The graphs of one decoder.

    Attributes:
        first: takes ids and audio features, gives logits and all keys and values.
        later: takes ids and the past, gives logits and the decoder's keys and values; the same
            graph as `first` where the export merged them.
    """

    first: Signature
    later: Signature

    @property
    def merged(self) -> bool:
        """One graph with a branch."""
        return self.first.path == self.later.path


def find_graphs(path: Path, spec: ModelSpec) -> OptimumGraphs:
    """Find and check the decoder graphs of an export.

    Args:
        path: the export's directory (also one with the graphs in `onnx/`), or one of its decoder
            graphs, to choose among several.
        spec: the model that it should be of.

    Raises:
        ModelError: no such graphs, graphs of another kind, or of another model.
    """
    for first, later in _candidates(path):
        if first.is_file() and later.is_file():
            start = read_signature(first)
            graphs = OptimumGraphs(start, start if later == first else read_signature(later))
            _check_names(graphs, spec)
            _check_sizes(graphs, spec)
            return graphs
    raise ModelError(
        f"{shown(path)} holds no {MERGED}.onnx, nor {FIRST}.onnx with {LATER}.onnx, nor a "
        f"checkpoint's model.safetensors; {_AGAIN}, or give the directory with --decoder"
    )


def _candidates(path: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of files to look for, the best first: one graph costs half the memory of two."""
    if not path.is_dir():
        name = path.name
        if name.startswith(MERGED):
            yield path, path
        elif name.startswith(LATER):
            yield path.with_name(name.replace(LATER, FIRST, 1)), path
        else:
            yield path, path.with_name(name.replace(FIRST, LATER, 1))
        return
    for folder in (path, path / "onnx"):
        for mark in ("", "_quantized", "_int8", "_fp16"):
            merged = folder / f"{MERGED}{mark}.onnx"
            yield merged, merged
            yield folder / f"{FIRST}{mark}.onnx", folder / f"{LATER}{mark}.onnx"


def _check_names(graphs: OptimumGraphs, spec: ModelSpec) -> None:
    """Both graphs have the inputs and outputs that a cached decoder needs, and no unknown ones."""
    layers = range(spec.dims.n_decoder_layers)
    own = {f"{i}.decoder.{part}" for i in layers for part in ("key", "value")}
    cross = {f"{i}.encoder.{part}" for i in layers for part in ("key", "value")}
    for signature in (graphs.first, graphs.later):
        unknown = [n for n in signature.inputs if n not in _KNOWN and not PAST.fullmatch(n)]
        if unknown or not any(name in signature.inputs for name in IDS):
            what = f"input {unknown[0]}" if unknown else "no token ids"
            raise ModelError(f"{shown(signature.path)} has {what}, no Whisper decoder; {_AGAIN}")
    for signature, prefix, wanted in (
        (graphs.first, "present", own | cross),
        (graphs.later, "past_key_values", own | cross),
        (graphs.later, "present", own),
    ):
        ports = signature.outputs if prefix == "present" else signature.inputs
        pattern = PRESENT if prefix == "present" else PAST
        got = {n.removeprefix(f"{prefix}.") for n in ports if pattern.fullmatch(n)}
        extra = got - own - cross
        if not wanted <= got or extra:
            name = sorted(extra or wanted - got)[0]
            raise ModelError(
                f"{shown(signature.path)} {'has' if extra else 'lacks'} {prefix}.{name}, "
                f"{spec.name} has {len(layers)} decoder layers; decoder and --model must be of one "
                "model, exported with its cache"
            )
    if FEATURES not in graphs.first.inputs or "logits" not in graphs.first.outputs:
        raise ModelError(f"{shown(graphs.first.path)} lacks {FEATURES} or logits; {_AGAIN}")


def _check_sizes(graphs: OptimumGraphs, spec: ModelSpec) -> None:
    """Width, heads and vocabulary are the model's, wherever the graph gives a number."""
    dims = spec.dims
    heads = f"{dims.n_decoder_heads} heads of {dims.head_size}"
    first, later = graphs.first, graphs.later
    cache = next(port for name, port in later.inputs.items() if PAST.fullmatch(name))
    for signature, port, axis, size, what in (
        (first, first.inputs[FEATURES], 2, dims.d_model, f"a width of {dims.d_model}"),
        (first, first.outputs["logits"], 2, dims.n_vocab, f"{dims.n_vocab} tokens"),
        (later, cache, 1, dims.n_decoder_heads, heads),
        (later, cache, 3, dims.head_size, heads),
    ):
        _check_axis(signature, port, axis, size, f"{spec.name} has {what}")


def _check_axis(signature: Signature, port: Port, axis: int, size: int, has: str) -> None:
    got = port.shape[axis] if len(port.shape) > axis else None
    if isinstance(got, str) or got == size:
        return
    shape = ", ".join(map(str, port.shape))
    raise ModelError(
        f"{shown(signature.path)} has ({shape}), {has}; decoder and --model must be of one model"
    )
