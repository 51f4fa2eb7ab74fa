"""Fetching published HEFs from a local server, and failures on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.file_server import Server, serving, silent
from tests.standin.hef_file import Net, Wish, hef_bytes
from whisper_hailo.backends.hailo import hef_catalog, hef_download
from whisper_hailo.backends.hailo.hef_catalog import (
    PAIRS,
    RELEASES,
    KnownHefs,
    find_known,
    matching_hef,
)
from whisper_hailo.backends.hailo.hef_download import fetch
from whisper_hailo.cli.app import run
from whisper_hailo.core.errors import (
    HefError,
    HubError,
    ModelError,
    OptionError,
    OutputError,
    WrongChipError,
)

ENCODER = Net("e", {"e/input_layer1": (1, 1000, 80)}, {"e/out": (1, 500, 384)})
DECODER = Net(
    "d",
    {"d/input_layer1": (1, 500, 384), "d/input_layer2": (32, 1, 384)},
    {f"d/conv{i}": (1, 32, 100) for i in range(4)},
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as opened:
        yield opened


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> KnownHefs:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    found = find_known("hailo8l", "tiny")
    assert found is not None
    return found


def _array() -> bytes:
    content = BytesIO()
    np.save(content, np.zeros((32, 384), np.float32))
    return content.getvalue()


def _publish(server: Server, known: KnownHefs, arch: str = "hailo8l") -> list[str]:
    paths = [f"/{path}" for path, *_ in known.files().values()]
    contents = [hef_bytes(Wish([net], arch, version=1)) for net in (ENCODER, DECODER)]
    server.files = dict(zip(paths, [*contents, _array(), _array()], strict=True))
    return paths


def test_fetch_of_complete_files_fetches_nothing(
    server: Server, known: KnownHefs, tmp_path: Path
) -> None:
    paths = _publish(server, known)
    files = fetch(known, server.address)
    assert server.asked == paths
    assert (
        files[0]
        == tmp_path / "cache/hefs/hailo8l/tiny/tiny-whisper-encoder-10s_15dB_h8l.hef"
    )
    assert [path.read_bytes() for path in files] == list(server.files.values())
    assert fetch(known, server.address) == files
    assert server.asked == paths, "what is there and whole stays"
    files[0].write_bytes(b"rotten")
    fetch(known, server.address)
    assert server.asked == [*paths, paths[0]]
    assert not list(known.folder.rglob(".*")), "no half file stays"


@pytest.mark.parametrize("arch", ["hailo8", "hailo10h"])
def test_fetch_of_hef_for_another_chip_keeps_no_file(
    server: Server, known: KnownHefs, arch: str
) -> None:
    _publish(server, known, arch)
    with pytest.raises(WrongChipError, match=rf"h8l\.hef .*\b{arch}, .*\bhailo8l$"):
        fetch(known, server.address)
    assert not [path for path in known.folder.rglob("*") if path.is_file()]


def test_fetch_of_broken_download_is_refused(server: Server, known: KnownHefs) -> None:
    paths = _publish(server, known)
    server.cut = {paths[0]}
    with pytest.raises(HubError, match=rf"{paths[0]} "):
        fetch(known, server.address)
    server.cut = set()
    server.files[paths[1]] = server.files[paths[0]]
    with pytest.raises(HefError, match="Whisper decoder"):
        fetch(known, server.address)
    server.files[paths[0]] = b"<html>not here any more</html>" * 9
    (known.folder / known.encoder).unlink()
    with pytest.raises(HefError, match=r"0x3c68746d"):
        fetch(known, server.address)
    del server.files[paths[0]]
    with pytest.raises(HubError, match=r"http://.* 404 "):
        fetch(known, server.address)
    assert not [path for path in known.folder.rglob("*") if path.is_file()]


def test_fetch_of_bad_arrays_and_endless_files_is_refused(
    server: Server, known: KnownHefs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = _publish(server, known)
    server.files[paths[2]] = b"\x93NUMPY and no more"
    with pytest.raises(ModelError, match=r"^token_embedding_weight_tiny\.npy .*\("):
        fetch(known, server.address)
    content = BytesIO()
    np.save(content, np.array([{}], dtype=object), allow_pickle=True)
    server.files[paths[2]] = content.getvalue()
    with pytest.raises(ModelError, match=r"^token_embedding_weight_tiny\.npy .*\("):
        fetch(known, server.address)
    content = BytesIO()
    np.save(content, np.zeros(384, np.float32))
    server.files[paths[2]] = content.getvalue()
    with pytest.raises(
        ModelError, match=r"^token_embedding_weight_tiny\.npy .*float32 \(384,\), "
    ):
        fetch(known, server.address)


def download(address: str, target: Path) -> None:
    target.write_bytes(b"".join(hef_download._download(address, target.parent)))


@pytest.mark.parametrize("says_length", [True, False])
def test_download_is_limited_in_size(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says_length: bool
) -> None:
    monkeypatch.setattr(hef_download, "LARGEST_DOWNLOAD", 200_000)
    server.says_length = says_length
    server.files = {"/a": bytes(range(250)) * 800, "/b": bytes(200_001), "/c": b""}
    for name in ("a", "c"):
        download(f"{server.address}{name}", tmp_path / name)
        assert (tmp_path / name).read_bytes() == server.files[f"/{name}"]
    with pytest.raises(ModelError, match=r"/b .*\b200000 "):
        download(f"{server.address}b", tmp_path / "b")


def test_download_interrupted_or_missing_is_refused(
    server: Server, tmp_path: Path
) -> None:
    server.files = {"/a": bytes(1000)}
    server.cut.add("/a")
    with pytest.raises(HubError, match=r"/a .*\b500 .*\b1000 "):
        download(f"{server.address}a", tmp_path / "a")
    with pytest.raises(HubError, match=r"http://.* 404 "):
        download(f"{server.address}b", tmp_path / "b")
    with pytest.raises(HubError, match=r"http://127\.0\.0\.1:9/a .*--from"):
        download("http://127.0.0.1:9/a", tmp_path / "c")


def test_fetch_without_network_address_or_folder_fails(
    known: KnownHefs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        HubError, match=r"http://127\.0\.0\.1:9/.*hailo8l/tiny,.*--from"
    ):
        fetch(known, "http://127.0.0.1:9/")
    with pytest.raises(OptionError, match=r"--from .*'file:///etc/'.*https://"):
        fetch(known, "file:///etc/")
    (tmp_path / "file").touch()
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match=r"/file/hefs.*WHISPER_HAILO_CACHE"):
        fetch(known, "http://127.0.0.1:9/")


def test_fetch_from_silent_server_times_out(
    known: KnownHefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hef_download, "DOWNLOAD_TIMEOUT_S", 0.1)
    with (
        silent() as address,
        pytest.raises(HubError, match=r"http://.*\(timed out\).*--from"),
    ):
        fetch(known, f"{address}/")
    assert not [path for path in known.folder.rglob("*") if path.is_file()]


def test_fetch_hef_command_names_files_and_next_step(
    server: Server, known: KnownHefs, capsys: pytest.CaptureFixture[str]
) -> None:
    _publish(server, known)
    words = ["fetch-hef", "--arch", known.arch, "--from", server.address]
    assert run(words) == 0
    *lines, following = capsys.readouterr().out.splitlines()
    files = [known.folder / name for name in known.files()]
    assert [line for line in lines if not line.startswith(" ")] == [*map(str, files)]
    for path in files:
        assert f"  SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}" in lines
    (encoder,) = [line for line in lines if "encoder for" in line]
    assert "10 s, 80 mel bins to 500 positions of 384" in encoder
    (decoder,) = [line for line in lines if "decoder for" in line]
    assert "32 tokens" in decoder
    assert "position rows" in decoder
    assert following.startswith("next: whisper-hailo transcribe")


def test_fetch_tries_known_addresses_in_turn(server: Server, known: KnownHefs) -> None:
    _publish(server, known)
    newest, *earlier = known.files()[known.encoder]
    server.files[f"/{earlier[0]}"] = server.files.pop(f"/{newest}")
    files = fetch(known, server.address)
    assert server.asked[:2] == [f"/{newest}", f"/{earlier[0]}"]
    assert files[0].read_bytes() == server.files[f"/{earlier[0]}"]


def test_fetch_takes_files_of_hailo_apps(
    server: Server, known: KnownHefs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those that fit; what is broken there comes from the network."""
    _publish(server, known)
    monkeypatch.setattr(hef_download, "HAILO_APPS", tmp_path)
    models = tmp_path / "models" / "hailo8l"
    models.mkdir(parents=True)
    (tmp_path / "npy").mkdir()
    encoder, decoder, *arrays = known.files()
    contents = dict(zip(known.files(), server.files.values(), strict=True))
    (models / encoder).write_bytes(contents[encoder])
    (models / decoder).write_bytes(b"broken")
    for name in arrays:
        (tmp_path / "npy" / Path(name).name).write_bytes(contents[name])
    files = fetch(known, server.address)
    assert server.asked == [f"/{known.files()[decoder][0]}"]
    assert [path.read_bytes() for path in files] == [*contents.values()]


def test_matching_hef_uses_fetched_files_for_openai_only(
    server: Server, known: KnownHefs, tmp_path: Path
) -> None:
    from dataclasses import replace

    from tests.fakes.model_sizes import toy_spec

    _publish(server, known)
    (path, *_) = fetch(known, server.address)
    spec = toy_spec()
    tiny = replace(spec, source=replace(spec.source, name="openai/whisper-tiny"))
    mine = replace(spec, source=replace(spec.source, name="me/whisper-tiny-fine"))
    assert matching_hef(tmp_path, tiny, "hailo8l", "encoder") == path
    assert matching_hef(tmp_path, tiny, "hailo8", "encoder") is None
    assert matching_hef(tmp_path, mine, "hailo8l", "encoder") is None


def test_fetch_of_file_with_both_halves_checks_both(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hef_catalog, "installed_version", lambda: "5.3.0")
    known = find_known("hailo10h", "small")
    assert known is not None
    assert known.place == f"{RELEASES}v5.3.0/blob/"
    both = Wish([DECODER, ENCODER], "hailo10h", version=3)
    server.files = {"/Whisper-Small.hef": hef_bytes(both)}
    (path,) = fetch(known, server.address)
    assert path == tmp_path / "cache/hefs/hailo10h/small-5.3.0/Whisper-Small.hef"
    path.unlink()
    server.files = {"/Whisper-Small.hef": hef_bytes(Wish([ENCODER], "hailo10h"))}
    with pytest.raises(HefError, match="Whisper decoder"):
        fetch(known, server.address)
    assert not path.exists()


@pytest.mark.parametrize(
    ("installed", "release"),
    [("", "5.4.0"), ("5.2.0", "5.4.0"), ("5.3.1", "5.3.0"), ("5.10.0", "5.4.0")],
)
def test_find_known_prefers_the_installed_hailort(
    monkeypatch: pytest.MonkeyPatch, installed: str, release: str
) -> None:
    monkeypatch.setattr(hef_catalog, "installed_version", lambda: installed)
    found = find_known("hailo10h", "small")
    assert found is not None
    assert found.release == release


def test_find_known_pairs_have_four_files() -> None:
    assert {len(known.files()) for known in PAIRS} == {4}
    assert find_known("hailo15h", "tiny") is None
    assert find_known("hailo8", "tiny.en") is None
    english = find_known("hailo10h", "tiny.en")
    assert english is not None
    assert [path for path, *_ in english.files().values()] == [
        "whisper/h10h/tiny_en-whisper-encoder-10s.hef",
        "whisper/h10h/tiny_en-whisper-decoder-fixed-sequence.hef",
        *(
            f"npy%20files/whisper/decoder_assets/tiny.en/decoder_tokenization/{stem}_tiny.en.npy"
            for stem in ("token_embedding_weight", "onnx_add_input")
        ),
    ]
