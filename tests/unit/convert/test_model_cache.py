"""The cache of converted models: hits, changes, damage, removal."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_sizes import toy_spec
from tests.unit.backends.conftest import GOLDENS
from tests.unit.core.test_spec import HEF
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.convert import model_cache
from whisper_hailo.convert.model_cache import (
    cached_as,
    cached_models,
    describe,
    find_model,
    is_described,
)
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import (
    ModelError,
    OptionError,
    OutputError,
    TokenizerError,
)
from whisper_hailo.core.spec import SPEC_FILE, FileRecord, ModelSource, ModelSpec
from whisper_hailo.transcription.transcriber import Transcriber


@pytest.fixture
def conversions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[tuple[Path, Path]]:
    """Conversions, which only write a small model here; the cache is a fresh folder."""
    import whisper_hailo.convert.convert as real

    done: list[tuple[Path, Path]] = []

    def convert(
        checkpoint: Path, out: Path, options: ConvertOptions, *, source: ModelSource
    ) -> None:
        # The real one would not replace what is damaged, either.
        out.mkdir(parents=True)
        spec = replace(toy_spec(), name=source.name, quantization=options.quantize)
        weights = FileRecord(bytes=4, sha256=hashlib.sha256(b"1234").hexdigest())
        (out / "weights").write_bytes(b"1234")
        text = replace(spec, files={"weights": weights}).to_json()
        (out / SPEC_FILE).write_text(text, encoding="utf-8")
        done.append((checkpoint, out))

    monkeypatch.setattr(real, "convert_checkpoint", convert)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "my; cache"))
    return done


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "config.json").write_text("{}", encoding="utf-8")
    return directory


def test_resolve_model_converts_once(
    conversions: list[object], checkpoint: Path
) -> None:
    first = model_cache.resolve_model(str(checkpoint))
    assert model_cache.resolve_model(str(checkpoint)) == first
    assert len(conversions) == 1
    assert ModelSpec.load(first).name == "mine"


def test_resolve_model_has_a_folder_per_processor_kind(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache may come to another machine, with its card or over the network."""
    folders = {}
    for in_half in (False, True):
        monkeypatch.setattr(
            "whisper_hailo.convert.options.has_float16_kernels",
            lambda: in_half,  # noqa: B023
        )
        folders[in_half] = [
            model_cache.resolve_model(str(checkpoint), options)
            for options in (
                ConvertOptions("int8"),
                ConvertOptions("int8", half=True),
                ConvertOptions("none"),
            )
        ]
    (codes, explicit, plain), (half, again, plain_there) = folders[False], folders[True]
    assert codes != half
    assert explicit == half == again
    assert plain == plain_there
    assert len(conversions) == 3


def test_resolve_model_has_a_folder_per_quantization(
    conversions: list[object], checkpoint: Path
) -> None:
    made = {
        options: model_cache.resolve_model(str(checkpoint), options)
        for options in (
            ConvertOptions("none"),
            ConvertOptions("int8"),
            ConvertOptions("int4"),
        )
    }
    assert len({*made.values()}) == len(conversions) == 3
    assert model_cache.resolve_model(str(checkpoint)) == made[ConvertOptions("int8")]


def test_resolve_model_refuses_another_form_of_directory(tmp_path: Path) -> None:
    spec = replace(toy_spec(), quantization="int8", encoder_quantization="none")
    (tmp_path / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    for options in (None, ConvertOptions(), ConvertOptions("int8", "none")):
        assert model_cache.resolve_model(str(tmp_path), options) == tmp_path
    with pytest.raises(OptionError, match=r"--quantize .*int4"):
        model_cache.resolve_model(str(tmp_path), ConvertOptions("int4"))
    with pytest.raises(OptionError, match=r"--encoder-quantize .*int8"):
        model_cache.resolve_model(
            str(tmp_path), ConvertOptions(encoder_quantize="int8")
        )


def test_resolve_model_of_changed_checkpoint_converts_again(
    conversions: list[object], checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model_cache.resolve_model(str(checkpoint))
    os.utime(checkpoint / "config.json", (1, 1))
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2
    assert not caplog.records, "nothing is damaged"


def test_resolve_model_ignores_the_listing_order(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint / "model.safetensors").touch()
    model_cache.resolve_model(str(checkpoint))
    real = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, what: [*real(path, what)][::-1])
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 1


def test_resolve_model_of_older_revision_converts_again(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_cache.resolve_model(str(checkpoint))
    monkeypatch.setattr(model_cache, "REVISION", model_cache.REVISION + 1)
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2


def test_resolve_model_keeps_same_names_apart(
    conversions: list[object], checkpoint: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "mine"
    other.mkdir(parents=True)
    assert model_cache.resolve_model(str(checkpoint)) != model_cache.resolve_model(
        str(other)
    )


def test_resolve_model_ignores_an_unfinished_conversion(
    conversions: list[tuple[Path, Path]],
    checkpoint: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = model_cache.resolve_model(str(checkpoint))
    stamp = target.with_name(target.name + ".stamp")
    first_lines = stamp.read_bytes().splitlines(keepends=True)[:-1]
    stamp.unlink()
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2
    stamp.write_bytes(b"".join(first_lines))  # the last says what was written
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 3
    assert not caplog.records, "nothing is damaged"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights", b"1"),
        ("weights", b"12\x004"),
        ("weights", None),
        (SPEC_FILE, b"\xff"),
        (SPEC_FILE, b'{"version": Infinity}'),
        (SPEC_FILE, b"[" * 100_000),
        (SPEC_FILE, None),
    ],
)
def test_resolve_model_of_damaged_entry_converts_again(
    conversions: list[object],
    checkpoint: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    content: bytes | None,
) -> None:
    file = model_cache.resolve_model(str(checkpoint)) / name
    before = file.read_bytes()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    model_cache.resolve_model(str(checkpoint))
    assert file.read_bytes() == before
    assert len(conversions) == 2
    (line,) = (
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING"
    )
    assert str(file.parent) in line
    assert name in line
    assert (line.count(";"), line.count("\n")) == (1, 0), "not what to do: that is done"


def test_resolve_model_of_changed_spec_converts_again(
    conversions: list[object], checkpoint: Path
) -> None:
    target = model_cache.resolve_model(str(checkpoint))
    spec = ModelSpec.load(target)
    (target / SPEC_FILE).write_text(
        replace(spec, hefs=(HEF,)).to_json(), encoding="utf-8"
    )
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 1
    changed = replace(spec, tokens=replace(spec.tokens, sot=spec.tokens.eot))
    (target / SPEC_FILE).write_text(changed.to_json(), encoding="utf-8")
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2


def test_resolve_model_of_changed_tokenizer_converts_again(
    conversions: list[object], checkpoint: Path, tmp_path: Path
) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    options = ConvertOptions("none", tokenizer=tokenizer)
    tokenizer.write_text("{}", encoding="utf-8")
    model_cache.resolve_model(str(checkpoint), options)
    tokenizer.write_text("{ }", encoding="utf-8")
    model_cache.resolve_model(str(checkpoint), options)
    assert len(conversions) == 2


def test_resolve_model_of_strange_names_and_dangling_links(
    conversions: list[object], tmp_path: Path
) -> None:
    for name in ("x" * 250, os.fsdecode(b"\xff\xfe"), "two\nlines", "größer"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "config.json").write_text("{}", encoding="utf-8")
        (directory / "gone").symlink_to(tmp_path / "nowhere")
        target = model_cache.resolve_model(str(directory))
        assert model_cache.resolve_model(str(directory)) == target
        assert target.name.isascii()
    assert len(conversions) == 4


def test_resolve_model_in_parallel_converts_once(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    barrier = threading.Barrier(4, timeout=60)
    met = set[int]()

    def lock(file: Any, how: int) -> None:
        if threading.get_ident() not in met:  # there are other locks behind the first
            met.add(threading.get_ident())
            barrier.wait()  # none of them has seen a model of another
        flock(file, how)

    monkeypatch.setattr("fcntl.flock", lock)
    threads = [
        threading.Thread(target=model_cache.resolve_model, args=(str(checkpoint),))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(conversions) == 1


@pytest.mark.parametrize("options", [None, ConvertOptions()])
def test_resolve_model_uses_a_model_directory_as_it_is(
    conversions: list[object], tmp_path: Path, options: ConvertOptions | None
) -> None:
    (tmp_path / SPEC_FILE).write_text("{}", encoding="utf-8")
    assert model_cache.resolve_model(str(tmp_path), options) == tmp_path
    assert not conversions


def test_resolve_model_fetches_a_hub_model_once(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(name: object, revision: str | None) -> tuple[Path, ModelSource]:
        fetched.append(revision)
        return checkpoint, ModelSource(name="openai/whisper-tiny", revision="abc")

    monkeypatch.setattr(model_cache, "locate_checkpoint", fetch)
    assert model_cache.resolve_model("tiny") == model_cache.resolve_model("tiny")
    assert model_cache.resolve_model(
        "tiny", revision="v2"
    ) != model_cache.resolve_model("tiny")
    assert fetched == [None, "v2"]
    mine = model_cache.resolve_model("me/whisper-tiny")
    assert mine != model_cache.resolve_model("other/whisper-tiny")
    monkeypatch.chdir(checkpoint)
    assert model_cache.resolve_model("me/whisper-tiny") == mine


def test_resolve_model_of_unwritable_cache_says_what_to_set(
    conversions: list[object],
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match="WHISPER_HAILO_CACHE"):
        model_cache.resolve_model(str(checkpoint))


def test_resolve_model_of_unknown_name_is_refused(conversions: list[object]) -> None:
    with pytest.raises(ModelError, match="tinny"):
        model_cache.resolve_model("tinny")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of three models, half of a fourth and one of another version."""
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    folder = tmp_path / "models"
    for name, source in (
        ("tiny-int8-1", "openai/whisper-tiny"),
        ("tiny-none-2", "openai/whisper-tiny"),
        ("mine-int8-3", "/home/me/mine"),
        (".half", "openai/whisper-base"),
    ):
        write(folder / name, name.split("-")[0], source)
    (folder / "old").mkdir()
    (folder / "old" / SPEC_FILE).write_text("{}", encoding="utf-8")
    return folder


def write(directory: Path, name: str, source: str) -> None:
    directory.mkdir(parents=True)
    record = FileRecord(bytes=5, sha256=hashlib.sha256(b"whole").hexdigest())
    spec = replace(toy_spec(), name=name, source=ModelSource(name=source))
    spec = replace(spec, files={"a": record, "b": record})
    (directory / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    for file in ("a", "b"):
        (directory / file).write_bytes(b"whole")


@pytest.mark.usefixtures("models")
def test_cached_models_are_whole_and_in_order() -> None:
    found = [model.directory.name for model in cached_models()]
    assert found == ["mine-int8-3", "tiny-int8-1", "tiny-none-2"]
    assert [model.n_bytes for model in cached_models()] == [10, 10, 10]


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tiny", ["tiny-int8-1", "tiny-none-2"]),
        ("openai/whisper-tiny", ["tiny-int8-1", "tiny-none-2"]),
        ("tiny-none-2", ["tiny-none-2"]),
        ("mine", ["mine-int8-3"]),
        ("/home/me/mine", ["mine-int8-3"]),
    ],
)
def test_cached_as_finds_a_model_by_each_name(name: str, expected: list[str]) -> None:
    assert [model.directory.name for model in cached_as(name)] == expected


@pytest.mark.usefixtures("models")
def test_cached_as_unknown_name_lists_the_cache() -> None:
    with pytest.raises(ModelError, match="mine, tiny"):
        cached_as("base")


def test_cached_as_of_empty_cache_says_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="none"):
        cached_as("tiny")


def test_cached_model_remove_takes_stamp_and_lock(models: Path) -> None:
    (models / "mine-int8-3.stamp").write_text("made of what")
    (model,) = cached_as("mine")
    model.remove()
    left = sorted(path.name for path in models.iterdir())
    assert left == [".half", "old", "tiny-int8-1", "tiny-none-2"]


def test_cached_model_remove_without_stamp_works(models: Path) -> None:
    (model,) = cached_as("mine")
    model.remove()
    assert not model.directory.exists()


def test_cached_model_remove_of_missing_folder_works(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model,) = cached_as("mine")
    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda _: real(models))
    model.remove()
    assert not models.exists()


MICRO = ASSETS / "micro"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of Optimum: graphs, and the small files of the checkpoint."""
    folder = tmp_path / "export"
    with zipfile.ZipFile(GOLDENS / "optimum-onnx-0.1.0.zip") as packed:
        packed.extractall(folder)
    with zipfile.ZipFile(GOLDENS / "checkpoint.zip") as packed:
        for name in packed.namelist():
            if name.endswith(".json"):
                packed.extract(name, folder)
    return folder


@pytest.fixture
def description(tmp_path: Path) -> Path:
    """The bundled model without its arrays."""
    folder = tmp_path / "described"
    folder.mkdir()
    for file in MICRO.glob("*.json"):
        shutil.copy(file, folder)
    return folder


def test_find_model_uses_an_export_as_it_is(export: Path) -> None:
    assert is_described(export)
    directory, spec = find_model(str(export))
    assert directory == export
    assert (spec.name, spec.dims.d_model, spec.dims.n_vocab) == ("export", 8, 90)
    assert (spec.tokens.sot, spec.tokens.eot) == (11, 10)


def test_describe_knows_what_the_checkpoint_knows(
    description: Path, tmp_path: Path
) -> None:
    _, whole = find_model("micro")
    spec = describe(description)
    assert (spec.dims, spec.tokens) == (whole.dims, whole.tokens)
    assert spec.alignment_heads == whole.alignment_heads
    tokenizer = tmp_path / "elsewhere.json"
    (description / "tokenizer.json").rename(tokenizer)
    assert describe(description, tokenizer).tokens == whole.tokens


def test_is_described_of_checkpoint_or_model_is_false(
    description: Path, tmp_path: Path
) -> None:
    assert not is_described(MICRO)
    assert not is_described(tmp_path)
    (description / "pytorch_model.bin").touch()
    assert not is_described(description)


def test_find_model_prefers_the_model_directory(
    description: Path,
) -> None:
    spec = replace(toy_spec(), quantization="int4")
    (description / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    assert find_model(str(description)) == (description, spec)


def test_find_model_refuses_another_form_of_export(description: Path) -> None:
    """The cached model is float32, like graphs of other programs."""
    for options in (None, ConvertOptions(), ConvertOptions("none", "none")):
        assert find_model(str(description), options)[0] == description
    with pytest.raises(OptionError, match=r"--quantize .*int8"):
        find_model(str(description), ConvertOptions("int8"))


def test_describe_without_generation_uses_the_upper_half(description: Path) -> None:
    (description / "generation_config.json").unlink()
    spec = describe(description)
    n_layers = spec.dims.n_decoder_layers
    n_heads = spec.dims.n_decoder_heads
    upper = range(n_layers // 2, n_layers)
    assert spec.alignment_heads == tuple(
        (i, head) for i in upper for head in range(n_heads)
    )


def test_find_model_of_others_uses_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []

    def resolve(
        name: str, options: object = None, *, revision: str | None = None
    ) -> Path:
        calls.append((name, options, revision))
        return tmp_path

    monkeypatch.setattr("whisper_hailo.convert.model_cache.resolve_model", resolve)
    (tmp_path / SPEC_FILE).write_text(toy_spec().to_json(), encoding="utf-8")
    options = ConvertOptions("int4")
    assert find_model("tiny", options, revision="v2") == (tmp_path, toy_spec())
    assert find_model(str(tmp_path)) == (tmp_path, toy_spec())
    assert calls == [("tiny", options, "v2"), (str(tmp_path), None, None)]


def test_transcriber_of_half_an_export_asks_for_the_other(description: Path) -> None:
    with pytest.raises(ModelError, match=r"decoder_model_merged\.onnx"):
        Transcriber.from_model(str(description))
    with pytest.raises(OptionError, match="--decoder-backend"):
        Transcriber.from_model(
            str(description), engine=EngineOptions(decoder_backend="cached")
        )


def test_transcriber_of_export_without_tokenizer_says_so(export: Path) -> None:
    with pytest.raises(TokenizerError, match="--tokenizer"):
        Transcriber.from_model(str(export))
    with pytest.raises(TokenizerError, match="90 tokens"):
        Transcriber.from_model(
            str(export), engine=EngineOptions(tokenizer=MICRO / "tokenizer.json")
        )
