"""Results: their files, standard output, and inputs that are finished already."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.results import transcript
from whisper_hailo.cli.inputs import Input, find_inputs
from whisper_hailo.cli.sink import Sink
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.core.errors import AudioError, ExitCode, OptionError, OutputError
from whisper_hailo.text.subtitles import Layout


def inputs(folder: Path, *names: str) -> list[Input]:
    for name in names:
        (folder / name).write_text("some sound")
    return find_inputs([str(folder / name) for name in names])


def sink(
    entries: list[Input], out: Path | None, *formats: str, as_json: bool = False
) -> Sink:
    return Sink(OutputOptions(formats or ("txt",), out, as_json=as_json), entries)


def laid_out(results: Sink, layout: Layout) -> Sink:
    return replace(results, output=replace(results.output, layout=layout))


def test_write_result_writes_a_file_per_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = inputs(tmp_path, "a.b.wav")
    results = sink(entries, tmp_path / "out", "txt", "srt")
    results.write_result(entries[0], transcript())
    output = capsys.readouterr()
    wrote = [f"wrote {tmp_path}/out/a.b.{fmt}" for fmt in ("txt", "srt")]
    assert (output.out, output.err.splitlines()) == ("", wrote)
    assert [target for _, target in results.result_files(entries[0])] == [
        tmp_path / "out" / "a.b.txt",
        tmp_path / "out" / "a.b.srt",
    ]
    assert (tmp_path / "out" / "a.b.txt").read_text() == "Grüße. All the rest.\n"
    assert (tmp_path / "out" / "a.b.srt").read_text().startswith("1\n00:00:00,000 --> ")


def test_has_results_needs_all_formats(tmp_path: Path) -> None:
    """One has both of its files, one has half of them, one has none."""
    entries = inputs(tmp_path, "both.wav", "half.wav", "none.wav")
    out = tmp_path / "out"
    out.mkdir()
    for name in ("both.txt", "both.srt", "half.txt"):
        (out / name).touch()
    results = sink(entries, out, "txt", "srt")
    assert [results.has_results(entry) for entry in entries] == [True, False, False]


def test_has_results_without_folder_is_false(tmp_path: Path) -> None:
    (entry,) = inputs(tmp_path, "a.wav")
    assert not sink([entry], None).has_results(entry)


def test_sink_refuses_to_replace_input(tmp_path: Path) -> None:
    entries = inputs(tmp_path, "a.txt")
    with pytest.raises(OptionError, match=r"a\.txt"):
        sink(entries, tmp_path)
    sink(entries, tmp_path, "srt")


def test_write_result_of_several_prefixes_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = inputs(tmp_path, "a.wav")
    sink(single, None).write_result(single[0], transcript())
    assert capsys.readouterr().out == "Grüße.\nAll the rest.\n"
    two = inputs(tmp_path, "a.wav", "b.wav")
    sink(two, None).write_result(two[1], transcript())
    name = two[1].name
    assert capsys.readouterr().out == f"{name}: Grüße.\n{name}: All the rest.\n"
    with pytest.raises(OptionError, match="--output-dir"):
        sink(two, None, "srt")
    odd = inputs(tmp_path, "a.wav", "two\nlines.wav")
    sink(odd, None).write_result(odd[1], transcript())
    assert capsys.readouterr().out.startswith(f"'{tmp_path}/two\\nlines.wav': Grüße.\n")


def test_write_result_timed_prints_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = inputs(tmp_path, "a.wav", "b.wav")
    replace(sink(two, None), timed=True).write_result(two[1], transcript())
    first = f"{two[1].name}: [00:00.000 --> 00:09.000]  Grüße.\n"
    assert capsys.readouterr().out.startswith(first)


def test_sink_json_is_an_object_per_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = inputs(tmp_path, "a.wav")
    results = sink(entries, None, as_json=True)
    results.write_result(entries[0], transcript())
    code = results.write_error(entries[0], AudioError("a.wav is empty; record again"))
    good, bad = map(json.loads, capsys.readouterr().out.splitlines())
    assert (good["audio"], good["text"]) == (entries[0].name, "Grüße. All the rest.")
    assert bad == {
        "version": 1,
        "audio": entries[0].name,
        "error": "a.wav is empty; record again",
        "exit_code": 3,
    }
    assert code == ExitCode.AUDIO


def test_write_result_without_speech_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = inputs(tmp_path, "a.wav")
    sink(entries, None).write_result(entries[0], replace(transcript(), segments=()))
    assert "12.5 s" in capsys.readouterr().err


def test_write_result_follows_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = inputs(tmp_path, "a.wav")
    single = Layout(max_words_per_line=1)
    laid_out(sink(entries, None, "srt"), single).write_result(entries[0], transcript())
    assert capsys.readouterr().out.count("-->") == 4


@pytest.mark.parametrize("name", ["a.srt", "a.part.jsonl"])
def test_check_results_refuses_foreign_file(tmp_path: Path, name: str) -> None:
    entries = inputs(tmp_path, "a.wav")
    (tmp_path / name).write_text("a poem")
    (refused,) = sink(entries, tmp_path, "srt").check_results()
    assert name in str(refused.fault)
    (tmp_path / name).unlink()
    (whole,) = sink(entries, tmp_path, "srt").check_results()
    assert whole.fault is None


def test_check_results_keeps_faults_of_inputs(tmp_path: Path) -> None:
    for folder in ("x/empty", "y/empty"):
        (tmp_path / folder).mkdir(parents=True)
    entries = find_inputs([str(tmp_path / "x"), str(tmp_path / "y" / "empty"), ""])
    entries += find_inputs([str(tmp_path / "x" / "empty")])
    checked = sink(entries, tmp_path / "out").check_results()
    assert [entry.fault for entry in checked] == [entry.fault for entry in entries]
    assert all(entry.fault for entry in checked)


def test_check_results_unwritable_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = inputs(tmp_path, "a.wav")
    sink(entries, tmp_path / "new" / "folder").check_results()
    assert not (tmp_path / "new").exists()
    with pytest.raises(OutputError, match=r"a\.wav"):
        sink(entries, tmp_path / "a.wav").check_results()
    with pytest.raises(OutputError, match=r"a\.wav"):
        sink(entries, tmp_path / "a.wav" / "below").check_results()
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(OutputError, match="user"):
        sink(entries, tmp_path / "new").check_results()


def test_sink_json_is_printed_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = inputs(tmp_path, "a.wav")
    results = sink(entries, None, "json")
    assert results.printer(entries[0]) is None
    results.write_result(entries[0], transcript())
    assert json.loads(capsys.readouterr().out)["text"] == "Grüße. All the rest."
    sink(entries, None).write_result(entries[0], transcript(), is_printed=True)
    assert capsys.readouterr().out == ""


def test_write_result_json_prints_beside_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it cost, which files have not: they are the same each time."""
    entries = inputs(tmp_path, "a.wav")
    results = sink(entries, tmp_path / "out", "json", as_json=True)
    results.write_result(entries[0], transcript())
    facts = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "out" / "a.json").read_text())
    assert facts["text"] == written["text"]
    assert set(facts) > set(written)


def test_sink_refuses_to_replace_linked_input(tmp_path: Path) -> None:
    entries = inputs(tmp_path, "a.wav", "b.wav")
    (tmp_path / "a.txt").symlink_to(tmp_path / "b.wav")
    with pytest.raises(OptionError, match=r"a\.txt"):
        sink(entries, tmp_path)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_has_paragraphs_for_terminals_and_files(
    is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and terminals have them; programs that read a pipe get a line per segment."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert OutputOptions().has_paragraphs is is_terminal
    assert OutputOptions(output_dir=tmp_path).has_paragraphs
    assert OutputOptions(paragraphs=True).has_paragraphs
    assert not OutputOptions(output_dir=tmp_path, paragraphs=False).has_paragraphs


def test_write_result_paragraphs_of_several_have_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = inputs(tmp_path, "a.wav", "b.wav")
    results = Sink(OutputOptions(paragraphs=True), entries)
    first, second = transcript().segments
    far = replace(
        transcript(), segments=(first, replace(second, start_s=first.end_s + 9))
    )
    results.write_result(entries[0], far)
    name = entries[0].name
    assert capsys.readouterr().out == f"{name}: Grüße.\n{name}: All the rest.\n"
    alone = Sink(OutputOptions(paragraphs=True), entries[:1])
    alone.write_result(entries[0], far)
    assert capsys.readouterr().out == "Grüße.\n\nAll the rest.\n"
