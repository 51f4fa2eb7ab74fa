"""The emulated chip: the Hailo form with its fixed sizes, its layout and its 8 and 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.backends.fixed import OnnxFixedRunner
from whisper_hailo.backends.foreign_encoder import ForeignEncoder
from whisper_hailo.backends.model_files import has_content
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.files import resolve_within
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object


class EmulatedEncoder(ForeignEncoder):
    """An encoder that computes as the chip will, one fixed window at a time.

    The graph is what `whisper-hailo emulate` wrote.

    Args:
        path: an emulated graph of this model elsewhere; `None` is the model directory's own.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, path: Path | None = None, threads: int = 0
    ) -> None:
        path, self._plan = _emulated_graph(directory, spec, path, "encoder")
        super().__init__(path, spec, threads)

    @property
    def name(self) -> str:
        """`emulated-` and the plan, such as `emulated-adds16`."""
        return f"emulated-{self._plan}"


class EmulatedRunner(OnnxFixedRunner):
    """A decoder without a cache that computes as the chip will.

    Args:
        path: an emulated graph of this model elsewhere; `None` is the model directory's own.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, path: Path | None = None, threads: int = 0
    ) -> None:
        path, self._plan = _emulated_graph(directory, spec, path, "decoder")
        super().__init__(path, spec, threads)

    @property
    def name(self) -> str:
        """`emulated-` and the plan, such as `emulated-script`."""
        return f"emulated-{self._plan}"


def _emulated_graph(
    directory: Path, spec: ModelSpec, path: Path | None, part: str
) -> tuple[Path, str]:
    """Return the graph and the name of its plan."""
    form = spec.hailo_form(part)
    path = path or resolve_within(directory, form.emulated_file)
    return path, emulated_plan(path, spec, form)


def emulated_plan(path: Path, spec: ModelSpec, form: HailoForm) -> str:
    """Name of the plan of an emulated graph, from the record beside it."""
    advice = f"make it with: whisper-hailo emulate MODEL_DIR --audio DIR --part {form.part}"
    record_path = path.with_suffix(".json")
    if not path.is_file() or not record_path.is_file():
        raise ModelError(
            f"there is no emulated graph {display_path(path)} with its .json; {advice}"
        )
    try:
        record = decode(_Record, read_json_object(record_path))
    except MismatchError as error:
        raise ModelError(f"{display_path(record_path)}: {error}; {advice}") from error
    if record.graph_sha256 != spec.record(form.file).sha256:
        raise ModelError(
            f"{display_path(path)} was made from another graph than {display_path(form.file)}; "
            f"{advice}"
        )
    if not has_content(path, record.sha256):
        raise ModelError(
            f"{display_path(path)} is damaged: not what {display_path(record_path.name)} says; "
            f"{advice}"
        )
    return record.plan


@dataclass(frozen=True, slots=True)
class _Record:
    """What is read of the record beside an emulated graph."""

    plan: str
    sha256: str
    graph_sha256: str
