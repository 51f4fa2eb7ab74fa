"""What a bundle built elsewhere comes home, and nothing else does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.standin import with_compiler
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.compile import adopt_hef, compile_part
from whisper_hailo_tools.options import CalibrationOptions, CompileOptions

STEM = "micro_encoder_2s"


@pytest.fixture(scope="module")
def finished(micro: Path, recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a bundle's `out` folder holds: its program is the one that `compile` runs."""
    wanted = CalibrationOptions(part="encoder", count=4)
    found = calibrate(micro, recordings, tmp_path_factory.mktemp("set"), wanted)
    out = tmp_path_factory.mktemp("elsewhere") / "out"
    options = CompileOptions(arch="hailo8l", part="encoder", calibration=found.path, out=out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", with_compiler()["PYTHONPATH"])
        assert not compile_part(micro, options).recorded
    return out


@pytest.fixture
def model(micro: Path, tmp_path: Path) -> Path:
    out = tmp_path / "model"  # its files are replaced and never changed
    return Path(shutil.copytree(micro, out, copy_function=lambda a, b: Path(b).hardlink_to(a)))


@pytest.fixture
def built(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def test_a_hef_is_copied_with_what_belongs_to_it_and_listed(model: Path, built: Path) -> None:
    for _ in range(2):  # twice is once
        hef = adopt_hef(model, "hailo8l", "encoder", built)
        assert hef.recorded
        assert ModelSpec.load(model).hefs == (hef.record,)
    folder = model / "hailo" / "hailo8l"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{STEM}{suffix}" for suffix in (".alls", ".hef", ".hef.json")
    ]
    assert hef.record.file == f"hailo/hailo8l/{STEM}.hef"
    assert hef.record.snr_db == {"output_layer1": 21.5}
    assert hef.path.read_bytes() == (built / f"{STEM}.hef").read_bytes()


def test_what_is_not_this_models_is_refused(model: Path, built: Path) -> None:
    before = (model / "model.json").read_bytes()
    with pytest.raises(ModelError, match=r"holds no micro_decoder_2s_16\.hef\.json"):
        adopt_hef(model, "hailo8l", "decoder", built)
    with pytest.raises(ModelError, match="for hailo8l, --arch says hailo8"):
        adopt_hef(model, "hailo8", "encoder", built)
    record = built / f"{STEM}.hef.json"
    facts = json.loads(record.read_text())
    record.write_text(json.dumps(facts | {"graph_sha256": "0" * 64}))
    with pytest.raises(ModelError, match="of another graph"):
        adopt_hef(model, "hailo8l", "encoder", built)
    record.write_text(json.dumps(facts))
    (built / f"{STEM}.hef").write_bytes(b"cut short")
    with pytest.raises(ModelError, match="copy it again"):
        adopt_hef(model, "hailo8l", "encoder", built)
    assert (model / "model.json").read_bytes() == before
    assert not (model / "hailo" / "hailo8l").exists()


def test_a_place_that_cannot_be_written_says_so(model: Path, built: Path) -> None:
    (model / "hailo" / "hailo8l").write_text("in the way")
    with pytest.raises(OutputError, match="cannot copy"):
        adopt_hef(model, "hailo8l", "encoder", built)
