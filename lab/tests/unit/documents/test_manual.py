"""The manual page has the content of the help, and is valid troff."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from whisper_hailo.cli.app import COMMAND_GROUPS, run
from whisper_hailo.core.errors import ExitCode
from whisper_hailo_lab.documents.manual import COMPLETIONS, MAN, SHARE, make_files


@pytest.fixture(scope="module")
def page() -> str:
    return make_files()[SHARE / MAN]


def test_man_page_has_every_command_and_exit_code(page: str) -> None:
    named = re.findall(r"^\.SS (\S+)", page, re.MULTILINE)
    assert [name.replace("\\-", "-") for name in named] == list(COMMAND_GROUPS)
    codes = page.partition(".SH EXIT STATUS")[2]
    assert [int(code) for code in re.findall(r"^\.B (\d+)$", codes, re.MULTILINE)] == [
        *ExitCode
    ]


def test_man_page_has_the_options_of_the_help(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["batch", "--help"]) == 0
    help_options = set(
        re.findall(r"--[a-z-]+", capsys.readouterr().out.replace("[no-]", ""))
    )
    section = page.partition(".SS batch")[2].partition(".SS ")[0]
    section_text = section.replace("\\-", "-").replace("[no-]", "")
    assert help_options - {"--help"} <= set(re.findall(r"--[a-z-]+", section_text))
    assert "--engine" in section_text


def test_man_page_escapes_requests_and_dashes(page: str) -> None:
    lines = page.splitlines()
    requests = {line.split()[0] for line in lines if line.startswith(".")}
    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP", ".B"}
    assert [
        line for line in lines if re.search(r"(?<!\\)-", line) and ".TH" not in line
    ] == []


@pytest.mark.slow
def test_man_page_has_no_troff_warnings(page: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    words = ["groff", "-man", "-ww", "-Kutf8", "-Tutf8"]
    process = subprocess.run(
        words, input=page, capture_output=True, text=True, check=True
    )
    assert process.stderr == ""
    assert "whisper-hailo" in process.stdout


@pytest.mark.slow
def test_completions_of_each_shell_call_the_command() -> None:
    for shell, path in COMPLETIONS.items():
        assert f"{shell}_complete" in make_files()[SHARE / path]
