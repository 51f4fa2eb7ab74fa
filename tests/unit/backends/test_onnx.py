"""The graphs on ONNX Runtime: the same numbers for any steps and batches, and refusals."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import write_checkpoint
from tests.fakes.model_sizes import (
    ATOL,
    FULL,
    NONE,
    features_of,
    ids_of,
    last_of,
)
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.state import CachedState, constant
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, ShapeError
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import FileRecord, ModelSpec
from whisper_hailo.core.types import FloatArray


def test_decoder_prefill_equals_single_steps(decoder: CachedDecoder) -> None:
    tokens = ids_of([11, 5, 7, 9, 3, 120])
    start = decoder.start(features_of(1, 30, 64), (FULL,))
    whole, _ = decoder.step(tokens, start, np.arange(6), alignment=True)
    state = start
    for i in range(6):
        out, state = decoder.step(
            tokens[:, i : i + 1], state, np.array([0]), alignment=True
        )
        np.testing.assert_allclose(out.logits[:, 0], whole.logits[:, i], atol=ATOL)
        np.testing.assert_allclose(
            out.logsumexp[:, 0], whole.logsumexp[:, i], atol=ATOL
        )
        assert out.alignment is not None
        assert whole.alignment is not None
        np.testing.assert_allclose(
            out.alignment[:, :, 0], whole.alignment[:, :, i], atol=ATOL
        )
    assert state.n_tokens == 6


def test_decoder_step_projects_the_given_positions_only(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    tokens = ids_of([11, 5, 7, 9])
    whole, _ = decoder.step(tokens, state, np.arange(4))
    some, _ = decoder.step(tokens, state, np.array([3, 1]))
    np.testing.assert_allclose(some.logits, whole.logits[:, [3, 1]], atol=ATOL)
    none, after = decoder.step(tokens, state, np.array([], np.int64))
    assert none.logits.shape == (1, 0, 200)
    assert after.n_tokens == 4


def test_decoder_step_inputs_may_be_reused(decoder: CachedDecoder) -> None:
    """An earlier step's binding holds only for arrays that are read-only."""
    start = decoder.start(features_of(1, 30, 64), (NONE,))
    tokens = ids_of([11, 5])
    look = np.array([0], np.int64)
    whole, _ = decoder.step(tokens, start, np.arange(2))
    for column in (0, 1):
        look[0] = column
        out, state = decoder.step(tokens, start, look)
        np.testing.assert_allclose(out.logits[:, 0], whole.logits[:, column], atol=ATOL)
    token = ids_of([9])
    for value in (9, 3, 120):
        token[0, 0] = value
        reused, after = decoder.step(token, state, np.array([0], np.int64))
        logits = reused.logits.copy()
        fresh, state = decoder.step(ids_of([value]), state, np.array([0], np.int64))
        np.testing.assert_allclose(logits, fresh.logits, atol=ATOL)
        assert after.n_tokens == state.n_tokens


def test_decoder_binds_read_only_arrays_once(decoder: CachedDecoder) -> None:
    tokens = ids_of([11, 5])
    written = np.zeros(1, np.int64)
    fixed = [constant(np.array([column], np.int64)) for column in (0, 1)]
    view = np.broadcast_to(written, (1,))  # read-only, over memory that is written to
    bound = fresh = decoder.start(features_of(1, 30, 64), (NONE,))
    for look in (
        fixed[0],
        view,
        fixed[0],
        written,
        fixed[0],
        fixed[1],
        view,
        view,
        fixed[0],
    ):
        written[0] = 1 - written[0]
        output, bound = decoder.step(tokens, bound, look)
        got = output.logits.copy()
        expected, fresh = decoder.step(tokens, fresh, look.copy())
        np.testing.assert_array_equal(got, expected.logits)


def test_decoder_logsumexp_is_that_of_the_logits(decoder: CachedDecoder) -> None:
    out, _ = decoder.step(
        ids_of([11]), decoder.start(features_of(1, 9, 64), (NONE,)), last_of(1)
    )
    expected = np.log(np.exp(out.logits.astype(np.float64)).sum(-1))
    np.testing.assert_allclose(out.logsumexp, expected, atol=1e-5)


@pytest.mark.parametrize("pad_to", [31, 70, 150])
def test_decoder_free_padding_equals_zero_rows(
    decoder: CachedDecoder, pad_to: int
) -> None:
    features = features_of(1, 30, 64)
    zeros = np.zeros((1, pad_to - 30, 64), np.float32)
    real = decoder.start(np.concatenate([features, zeros], axis=1), (NONE,))
    free = decoder.start(features, (Padding(pad_to),))
    tokens = ids_of([11, 5, 7])
    got, _ = decoder.step(tokens, free, np.arange(3))
    expected, _ = decoder.step(tokens, real, np.arange(3))
    np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)


def test_decoder_padding_below_the_length_adds_nothing(decoder: CachedDecoder) -> None:
    features = features_of(1, 30, 64)
    outs = [
        decoder.step(ids_of([11]), decoder.start(features, (Padding(n),)), last_of(1))[
            0
        ].logits
        for n in (None, 10, 30)
    ]
    np.testing.assert_array_equal(outs[0], outs[1])
    np.testing.assert_array_equal(outs[0], outs[2])


def test_decoder_batch_of_lengths_equals_single_rows(decoder: CachedDecoder) -> None:
    features = features_of(3, 40, 64)
    lengths = np.array([40, 25, 1])
    paddings = (NONE, Padding(150), Padding(60))
    state = decoder.start(features, paddings, lengths)
    tokens = ids_of([11, 5], [11, 6], [11, 7])
    batch, state = decoder.step(tokens, state, np.arange(2))
    batch2, _ = decoder.step(ids_of([1], [2], [3]), state, last_of(1))
    for row in range(3):
        alone = decoder.start(features[row : row + 1, : lengths[row]], (paddings[row],))
        out, alone = decoder.step(tokens[row : row + 1], alone, np.arange(2))
        out2, _ = decoder.step(ids_of([row + 1]), alone, last_of(1))
        np.testing.assert_allclose(batch.logits[row], out.logits[0], atol=ATOL)
        np.testing.assert_allclose(batch2.logits[row], out2.logits[0], atol=ATOL)


def test_decoder_left_padded_prompts_equal_single_rows(decoder: CachedDecoder) -> None:
    features = features_of(2, 30, 64)
    prompts = [[11, 5, 7, 9], [11, 8]]
    tokens = ids_of(prompts[0], [0, 0, *prompts[1]])
    state = decoder.start(features, (FULL, FULL))
    batch, state = decoder.step(tokens, state, last_of(4), first=np.array([0, 2]))
    batch2, state = decoder.step(ids_of([3], [4]), state, last_of(1))
    assert np.isfinite(batch.logits).all()
    for row in range(2):
        alone = decoder.start(features[row : row + 1], (FULL,))
        out, alone = decoder.step(
            ids_of(prompts[row]), alone, last_of(len(prompts[row]))
        )
        out2, _ = decoder.step(ids_of([row + 3]), alone, last_of(1))
        np.testing.assert_allclose(batch.logits[row], out.logits[0], atol=ATOL)
        np.testing.assert_allclose(batch2.logits[row], out2.logits[0], atol=ATOL)


def test_decoder_padding_columns_are_finite(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    out, _ = decoder.step(ids_of([0, 0, 11]), state, np.arange(3), first=np.array([2]))
    assert np.isfinite(out.logits).all()


def past_of(state: CachedState) -> list[FloatArray]:
    return [array[:, :, : state.n_tokens] for array in state.cache.arrays]


def test_decoder_states_never_change(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (FULL,))
    _, prompt = decoder.step(ids_of([11, 5]), state, last_of(2))
    before = [array.copy() for array in past_of(prompt)]
    once, _ = decoder.step(ids_of([7]), prompt, last_of(1))
    decoder.step(ids_of([8]), prompt, last_of(1))
    again, _ = decoder.step(ids_of([7]), prompt, last_of(1))
    np.testing.assert_array_equal(once.logits, again.logits)
    for kept, array in zip(before, past_of(prompt), strict=True):
        np.testing.assert_array_equal(kept, array)


def test_decoder_states_share_a_cache_until_a_rewind(decoder: CachedDecoder) -> None:
    start = decoder.start(features_of(1, 30, 64), (FULL,))
    _, prompt = decoder.step(ids_of([11, 5]), start, last_of(2))
    _, later = decoder.step(ids_of([7]), prompt, last_of(1))
    assert later.cache is prompt.cache
    _, other = decoder.step(ids_of([8]), prompt, last_of(1))
    assert other.cache is not prompt.cache
    for mine, copied in zip(past_of(prompt), past_of(other), strict=True):
        np.testing.assert_array_equal(mine, copied[:, :, :2])


def test_decoder_cache_grows_with_the_text(decoder: CachedDecoder) -> None:
    """Through every place of the text context, one token at a time and all at once."""
    tokens = np.random.default_rng(3).integers(0, 200, (2, 64))
    state = decoder.start(features_of(2, 30, 64), (FULL, NONE))
    whole, _ = decoder.step(tokens, state, np.arange(64))
    _, state = decoder.step(tokens[:, :2], state, last_of(2))
    places = set()
    for i in range(2, 64):
        out, state = decoder.step(tokens[:, i : i + 1], state, last_of(1))
        places.add(state.cache.arrays[0].shape[2])
        np.testing.assert_allclose(out.logits[:, 0], whole.logits[:, i], atol=ATOL)
    assert places == {64}
    assert past_of(state)[0].shape == (2, 2, 64, 32)


def test_decoder_step_of_many_tokens_takes_one_row(decoder: CachedDecoder) -> None:
    """For several rows the runtime takes one token each."""
    tokens = ids_of([11, 5, 7, 9, 3, 8], [11, 6, 2, 4, 1, 5])
    state = decoder.start(features_of(2, 30, 64), (FULL, NONE))
    whole, _ = decoder.step(tokens, state, np.arange(6), alignment=True)
    _, state = decoder.step(tokens[:, :2], state, last_of(2))
    with pytest.raises(ShapeError, match=r"\b4 .*\b2 "):
        decoder.step(tokens[:, 2:], state, last_of(4))
    assert whole.alignment is not None
    for row in range(2):
        alone = decoder.select(state, np.array([row]))
        rest, after = decoder.step(
            tokens[row : row + 1, 2:], alone, np.array([3, 0]), alignment=True
        )
        assert after.n_tokens == 6
        np.testing.assert_allclose(rest.logits[0], whole.logits[row, [5, 2]], atol=ATOL)
        np.testing.assert_allclose(
            rest.logsumexp[0], whole.logsumexp[row, [5, 2]], atol=ATOL
        )
        assert rest.alignment is not None
        np.testing.assert_allclose(
            rest.alignment[0], whole.alignment[row, :, 2:], atol=ATOL
        )


def test_decoder_outputs_may_be_changed_until_the_next(decoder: CachedDecoder) -> None:
    """The next pass writes to the same arrays, all of them."""

    def last_logits(*, spoil: bool) -> FloatArray:
        state = decoder.start(features_of(1, 30, 64), (FULL,))
        for token in (11, 7, 5):
            out, state = decoder.step(ids_of([token]), state, last_of(1))
            last = out.logits.copy()
            if spoil:
                out.logits.fill(np.nan)
                out.logsumexp.fill(np.nan)
        return last

    np.testing.assert_array_equal(last_logits(spoil=True), last_logits(spoil=False))


@pytest.mark.parametrize("half", [False, True])
def test_encoder_and_decoder_round_rows_separately(tmp_path: Path, half: bool) -> None:
    """In 8 bits a loud window beside it would change a quiet one, were both one tensor."""
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    options = ConvertOptions(quantize="int8", encoder_quantize="int8", half=half)
    spec = convert_checkpoint(checkpoint, tmp_path / "model", options)
    mel = (
        features_of(2, 80, 60)
        * np.array([0.1, 10], np.float32)[:, np.newaxis, np.newaxis]
    )
    with (
        OnnxEncoder(tmp_path / "model", spec, threads=1) as encoder,
        CachedDecoder(tmp_path / "model", spec, threads=1) as decoder,
    ):
        both = encoder.encode(mel)
        cross = decoder.start(both, (FULL, FULL)).cross
        for row in range(2):
            alone = encoder.encode(mel[row : row + 1])
            np.testing.assert_array_equal(both[row], alone[0])
            own = decoder.start(alone, (FULL,)).cross
            for name, array in own.arrays.items():
                np.testing.assert_array_equal(cross.arrays[name][row], array[0])
            assert own.arrays["cross_key_0"].dtype == np.uint8


def test_decoder_select_gives_rows_for_beams(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(2, 30, 64), (NONE, FULL))
    _, state = decoder.step(ids_of([11, 5], [11, 6]), state, last_of(2))
    beams = decoder.select(state, np.array([1, 0, 1]))
    assert beams.audio_rows == (1, 0, 1)
    got, _ = decoder.step(ids_of([7], [7], [8]), beams, last_of(1))
    sevens, _ = decoder.step(ids_of([7], [7]), state, last_of(1))
    eights, _ = decoder.step(ids_of([8], [8]), state, last_of(1))
    np.testing.assert_allclose(got.logits[0], sevens.logits[1], atol=ATOL)
    np.testing.assert_allclose(got.logits[1], sevens.logits[0], atol=ATOL)
    np.testing.assert_allclose(got.logits[2], eights.logits[1], atol=ATOL)


def test_decoder_select_of_same_audio_moves_no_audio(decoder: CachedDecoder) -> None:
    state = decoder.select(
        decoder.start(features_of(1, 30, 64), (FULL,)), np.array([0, 0, 0])
    )
    assert decoder.select(state, np.array([2, 0, 0])).cross is state.cross


def test_decoder_rewind_forgets_rejected_drafts(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (FULL,))
    _, draft = decoder.step(ids_of([11, 5, 7, 9]), state, np.arange(4))
    cut = decoder.rewind(draft, 2)
    assert cut.n_tokens == 2
    got, _ = decoder.step(ids_of([3]), cut, last_of(1))
    _, plain = decoder.step(ids_of([11, 5]), state, last_of(2))
    expected, _ = decoder.step(ids_of([3]), plain, last_of(1))
    np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)
    assert decoder.rewind(draft, 4) is draft


def test_decoder_alignment_covers_the_real_positions(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    plain, _ = decoder.step(ids_of([11, 5]), state, last_of(2))
    assert plain.alignment is None
    aligned, _ = decoder.step(ids_of([11, 5]), state, last_of(2), alignment=True)
    assert aligned.alignment is not None
    assert aligned.alignment.shape == (1, 2, 2, 30)
    np.testing.assert_allclose(aligned.alignment.sum(-1), 1, atol=1e-5)
    padded = decoder.start(features_of(1, 30, 64), (FULL,))
    silent, _ = decoder.step(ids_of([11, 5]), padded, last_of(2), alignment=True)
    assert silent.alignment is not None
    assert np.all(silent.alignment.sum(-1) < 1)


def test_onnx_import_does_not_load_the_runtime() -> None:
    code = (
        "import sys, whisper_hailo.backends.onnx; "
        "sys.exit(bool({'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_encoder_refuses_mel_that_does_not_fit(encoder: OnnxEncoder) -> None:
    with pytest.raises(ShapeError, match=r"\b3000 .*\b300 \(3 s.*--window 3\b"):
        encoder.encode(np.zeros((1, 80, 3000), np.float32))


def test_decoder_refuses_features_that_do_not_fit(decoder: CachedDecoder) -> None:
    with pytest.raises(ShapeError, match=r"\(1, 30, 65\).*\(batch, n_audio_ctx, 64\)"):
        decoder.start(features_of(1, 30, 65), (NONE,))


def test_decoder_refuses_steps_that_do_not_fit(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    with pytest.raises(ShapeError, match=r"\b65 .*\b64;"):
        decoder.step(np.zeros((1, 65), np.int64), state, last_of(1))
    with pytest.raises(ShapeError, match=r"\b3 .*\b200, .*\b200;"):
        decoder.step(ids_of([3, 200]), state, last_of(2))


def test_decoder_text_context_can_be_used_to_its_end(decoder: CachedDecoder) -> None:
    state = decoder.start(features_of(1, 30, 64), (NONE,))
    out, state = decoder.step(np.full((1, 64), 5, np.int64), state, last_of(64))
    assert np.isfinite(out.logits).all()
    with pytest.raises(ShapeError, match=r"\b65 .*\b64;"):
        decoder.step(ids_of([1]), state, last_of(1))


def test_encoder_and_decoder_of_broken_directory_fail(
    model_directory: Path,
    spec: ModelSpec,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model_directory, copy)
    data = (copy / "decoder.onnx.data").read_bytes()
    (copy / "decoder.onnx.data").write_bytes(data[:-1])
    with pytest.raises(
        ModelError, match=rf"decoder\.onnx\.data .*{len(data) - 1} .*{len(data)};"
    ):
        CachedDecoder(copy, spec).open()
    (copy / "decoder.onnx.data").unlink()
    with pytest.raises(ModelError, match=r"copy .*decoder\.onnx\.data;"):
        CachedDecoder(copy, spec).open()
    size = (copy / "encoder.onnx").stat().st_size
    (copy / "encoder.onnx").write_bytes(
        bytes(range(1, 255)) * (size // 254) + bytes(size % 254)
    )
    with pytest.raises(ModelError, match=r"encoder\.onnx .*SHA-256") as caught:
        OnnxEncoder(copy, spec).open()
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    cut = (model_directory / "encoder.onnx").read_bytes()[: size // 2]
    (copy / "encoder.onnx").write_bytes(cut)
    record = FileRecord(len(cut), hashlib.sha256(cut).hexdigest())
    misled = replace(spec, files={**spec.files, "encoder.onnx": record})
    with pytest.raises(ModelError, match=r"encoder\.onnx .*ONNXRuntimeError"):
        OnnxEncoder(copy, misled).open()
    assert capfd.readouterr() == ("", "")


def test_encoder_and_decoder_refuse_foreign_graphs(
    model_directory: Path, spec: ModelSpec, tmp_path: Path
) -> None:
    shutil.copy(model_directory / "cross_kv.onnx", tmp_path / "encoder.onnx")
    record = spec.files["cross_kv.onnx"]
    claimed = replace(spec, files={"encoder.onnx": record, "cross_kv.onnx": record})
    with pytest.raises(ModelError, match=r"encoder\.onnx .*audio_features, mel"):
        OnnxEncoder(tmp_path, claimed).open()
    with pytest.raises(ModelError, match=r"cross_kv\.onnx;"):
        CachedDecoder(tmp_path, claimed).open()
    with pytest.raises(ModelError, match=r"model\.json .*encoder\.onnx"):
        OnnxEncoder(tmp_path, replace(spec, files={})).open()


def test_encoder_and_decoder_names_and_reopening(
    model_directory: Path, spec: ModelSpec
) -> None:
    encoder = OnnxEncoder(model_directory, spec)
    decoder = CachedDecoder(model_directory, spec)
    assert (encoder.name, decoder.name) == ("onnx-fp32", "cached-fp32")
    with pytest.raises(ModelError, match=r"^onnx-fp32"):
        encoder.encode(np.zeros((1, 80, 100), np.float32))
    for _ in range(2):
        with encoder:
            assert encoder.encode(np.zeros((1, 80, 100), np.float32)).shape == (
                1,
                50,
                64,
            )
    with pytest.raises(ModelError, match=r"^cached-fp32"):
        decoder.start(features_of(1, 30, 64), (NONE,))
