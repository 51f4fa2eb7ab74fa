"""Converted once, cached, converted again only when something changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.test_spec import HEF
from tests.unit.shapes import toy_spec
from whisper_hailo.convert import model_cache
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, OutputError
from whisper_hailo.core.spec import SPEC_FILE, FileRecord, ModelSource, ModelSpec


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, Path]]:
    """Replaces the conversion by one that only counts; the cache is a fresh folder."""
    import whisper_hailo.convert.convert as real

    done: list[tuple[Path, Path]] = []

    def convert(
        checkpoint: Path, out: Path, options: ConvertOptions, *, source: ModelSource
    ) -> None:
        out.mkdir(parents=True)  # the real one would not replace what is damaged, either
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


def test_a_checkpoint_is_converted_once(conversions: list[object], checkpoint: Path) -> None:
    first = model_cache.resolve_model(str(checkpoint))
    assert model_cache.resolve_model(str(checkpoint)) == first
    assert len(conversions) == 1
    assert ModelSpec.load(first).name == "mine"


def test_each_kind_of_processor_has_a_folder(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache may come to another machine, with its card or over the network."""
    found = {}
    for in_half in (False, True):
        monkeypatch.setattr("whisper_hailo.convert.options.has_float16_kernels", lambda: in_half)  # noqa: B023
        found[in_half] = [
            model_cache.resolve_model(str(checkpoint), options)
            for options in (
                ConvertOptions("int8"),
                ConvertOptions("int8", half=True),
                ConvertOptions("none"),
            )
        ]
    (codes, asked, plain), (half, again, plain_there) = found[False], found[True]
    assert codes != half
    assert asked == half == again
    assert plain == plain_there
    assert len(conversions) == 3


def test_each_quantisation_has_a_folder(conversions: list[object], checkpoint: Path) -> None:
    made = {
        options: model_cache.resolve_model(str(checkpoint), options)
        for options in (ConvertOptions("none"), ConvertOptions("int8"), ConvertOptions("int4"))
    }
    assert len({*made.values()}) == len(conversions) == 3
    assert model_cache.resolve_model(str(checkpoint)) == made[ConvertOptions("int8")]


def test_a_model_directory_is_not_asked_to_be_another(tmp_path: Path) -> None:
    spec = replace(toy_spec(), quantization="int8", encoder_quantization="none")
    (tmp_path / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
    for options in (None, ConvertOptions(), ConvertOptions("int8", "none")):
        assert model_cache.resolve_model(str(tmp_path), options) == tmp_path
    with pytest.raises(OptionError, match=r"--quantize is int4, .* has int8; leave it out"):
        model_cache.resolve_model(str(tmp_path), ConvertOptions("int4"))
    with pytest.raises(OptionError, match=r"--encoder-quantize is int8, .* has none; leave it out"):
        model_cache.resolve_model(str(tmp_path), ConvertOptions(encoder_quantize="int8"))


def test_a_changed_checkpoint_is_converted_again(
    conversions: list[object], checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model_cache.resolve_model(str(checkpoint))
    os.utime(checkpoint / "config.json", (1, 1))
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2
    assert not caplog.records, "nothing is damaged"


def test_the_order_in_which_a_folder_is_listed_changes_nothing(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint / "model.safetensors").touch()
    model_cache.resolve_model(str(checkpoint))
    real = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, what: [*real(path, what)][::-1])
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 1


def test_what_an_older_program_converted_is_converted_again(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_cache.resolve_model(str(checkpoint))
    monkeypatch.setattr(model_cache, "_REVISION", model_cache._REVISION + 1)
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2


def test_two_checkpoints_of_the_same_name_do_not_meet(
    conversions: list[object], checkpoint: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "mine"
    other.mkdir(parents=True)
    assert model_cache.resolve_model(str(checkpoint)) != model_cache.resolve_model(str(other))


def test_a_conversion_that_was_cut_off_is_not_used(
    conversions: list[tuple[Path, Path]], checkpoint: Path, caplog: pytest.LogCaptureFixture
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
def test_a_damaged_entry_is_made_again_in_one_line(
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
    (line,) = (one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert line.startswith("converting again: ")
    assert str(file.parent) in line
    assert name in line
    assert (line.count(";"), line.count("\n")) == (1, 0), "not what to do: that is done"


def test_a_description_that_changed_is_made_again_but_for_its_hefs(
    conversions: list[object], checkpoint: Path
) -> None:
    target = model_cache.resolve_model(str(checkpoint))
    spec = ModelSpec.load(target)
    (target / SPEC_FILE).write_text(replace(spec, hefs=(HEF,)).to_json(), encoding="utf-8")
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 1
    changed = replace(spec, tokens=replace(spec.tokens, sot=spec.tokens.eot))
    (target / SPEC_FILE).write_text(changed.to_json(), encoding="utf-8")
    model_cache.resolve_model(str(checkpoint))
    assert len(conversions) == 2


def test_a_changed_tokenizer_is_noticed(
    conversions: list[object], checkpoint: Path, tmp_path: Path
) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    options = ConvertOptions("none", tokenizer=tokenizer)
    tokenizer.write_text("{}", encoding="utf-8")
    model_cache.resolve_model(str(checkpoint), options)
    tokenizer.write_text("{ }", encoding="utf-8")
    model_cache.resolve_model(str(checkpoint), options)
    assert len(conversions) == 2


def test_strange_names_and_dangling_links(conversions: list[object], tmp_path: Path) -> None:
    for name in ("x" * 250, os.fsdecode(b"\xff\xfe"), "two\nlines", "größer"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "config.json").write_text("{}", encoding="utf-8")
        (directory / "gone").symlink_to(tmp_path / "nowhere")
        target = model_cache.resolve_model(str(directory))
        assert model_cache.resolve_model(str(directory)) == target
        assert target.name.isascii()
    assert len(conversions) == 4


def test_several_at_once_convert_once(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, at_the_door = fcntl.flock, threading.Barrier(4, timeout=60)
    met = set[int]()

    def lock(file: Any, how: int) -> None:
        if threading.get_ident() not in met:  # there are other locks behind the first
            met.add(threading.get_ident())
            at_the_door.wait()  # none of them has seen a model of another
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
def test_a_model_directory_is_used_as_it_is(
    conversions: list[object], tmp_path: Path, options: ConvertOptions | None
) -> None:
    (tmp_path / SPEC_FILE).write_text("{}", encoding="utf-8")
    assert model_cache.resolve_model(str(tmp_path), options) == tmp_path
    assert not conversions


def test_a_hub_model_is_fetched_once_and_then_needs_no_network(
    conversions: list[object], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(name: object, revision: str | None) -> tuple[Path, ModelSource]:
        fetched.append(revision)
        return checkpoint, ModelSource(name="openai/whisper-tiny", revision="abc")

    monkeypatch.setattr(model_cache, "locate_checkpoint", fetch)
    assert model_cache.resolve_model("tiny") == model_cache.resolve_model("tiny")
    assert model_cache.resolve_model("tiny", revision="v2") != model_cache.resolve_model("tiny")
    assert fetched == [None, "v2"]
    mine = model_cache.resolve_model("me/whisper-tiny")
    assert mine != model_cache.resolve_model("other/whisper-tiny")
    monkeypatch.chdir(checkpoint)
    assert model_cache.resolve_model("me/whisper-tiny") == mine


def test_a_cache_that_cannot_be_written_says_what_to_set(
    conversions: list[object], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match="set WHISPER_HAILO_CACHE"):
        model_cache.resolve_model(str(checkpoint))


def test_no_such_model(conversions: list[object]) -> None:
    with pytest.raises(ModelError, match="is no model"):
        model_cache.resolve_model("tinny")
