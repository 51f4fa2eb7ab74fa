"""What rungs are given: other windows each, what is heard in them, and graphs to compare with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest

from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.protocols import SilenceKeys
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.calibrate import windows
from whisper_hailo_tools.validate import reference
from whisper_hailo_tools.validate.reference import GraphSources
from whisper_hailo_tools.validate.validate import decode_greedily, draw_windows


def test_draw_windows_takes_turns_through_the_files(
    toy_model: Path, speech: Path
) -> None:
    """Two files of 2.5 s: the content of a window of 2 s is one, so each has three."""
    plan = WindowPlan.make(ModelSpec.load(toy_model).dims, 2.0)
    drawn_inputs = draw_windows(speech, plan, 128, 4)
    assert drawn_inputs.mel.shape == (4, 128, 200)
    assert len(set(drawn_inputs.used)) == 4
    names = [name for name, _ in drawn_inputs.used]
    assert set(names[:2]) == set(names[2:]) == {"0.wav", "1.wav"}
    assert len({mel.tobytes() for mel in drawn_inputs.mel}) == 4


def test_decode_greedily_gives_forced_text_end_and_zeros(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forced ones, what was heard, the end, zeros; cut to the length of a row."""
    spec = ModelSpec.load(toy_model)
    texts_by_start = {0.0: (21, 22), 1.0: (31, 32, 33, 34, 35), 2.0: ()}

    class Engine:
        silence_keys = SilenceKeys(np.ones((1, 64), np.float32), np.ones(1, np.float32))

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        silence_keys = None

        def encode(self, mel: FloatArray) -> FloatArray:
            return mel

        def start(self, features: FloatArray, paddings: Any) -> float:
            assert paddings[0].pad_to == spec.dims.n_audio_ctx
            assert paddings[0].silence is self.silence_keys
            return float(features.flat[0])

    class Loop:
        def __init__(self, *_: object) -> None: ...

        def run(self, state: float, tasks: Any) -> Any:
            assert tasks[0].prompt == (spec.tokens.sot,)
            return [SimpleNamespace(tokens=texts_by_start[state])]

    monkeypatch.setattr(windows, "OnnxEncoder", Engine)
    monkeypatch.setattr(windows, "CachedDecoder", Engine)
    monkeypatch.setattr(windows, "DecodingLoop", Loop)
    mel = np.arange(3, dtype=np.float32)[:, None, None] * np.ones(
        (1, 80, 4), np.float32
    )
    drawn_inputs = decode_greedily(toy_model, spec, mel, 6, "en")
    sot = spec.tokens.sot
    eot = spec.tokens.eot
    expected = [
        [sot, 21, 22, eot, 0, 0],
        [sot, 31, 32, 33, 34, 35],
        [sot, eot, 0, 0, 0, 0],
    ]
    assert drawn_inputs.tokens.tolist() == expected
    assert drawn_inputs.n_prefix == 1
    assert drawn_inputs.lengths == (4, 6, 2)


def test_graph_sources_convert_the_checkpoint_to_float(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModelSpec.load(toy_model)
    ours = Path("ours")
    model_path = Path("model_path")
    monkeypatch.setattr(reference, "convert_checkpoint", lambda *_, **__: None)
    for decoder, encoder in (("none", "int8"), ("int8", "none"), ("none", "none")):
        kinds = replace(spec, quantization=decoder, encoder_quantization=encoder)
        checkpoint: Any = SimpleNamespace(directory=Path("checkpoint"))
        sources = GraphSources(ours, kinds, checkpoint, model_path)
        assert sources.float_encoder == (
            ours if encoder == "none" else model_path / "float32"
        )
        assert sources.float_decoder == (
            ours if decoder == "none" else model_path / "float32"
        )
