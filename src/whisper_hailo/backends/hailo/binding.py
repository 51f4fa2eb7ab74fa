"""Hailo's Python binding, `hailo_platform`: imported here and nowhere else, when needed.

It is a system package: a virtual environment sees it only if it was made with system site packages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import BindingMismatchError, NoBindingError, display_path

SYSTEM_PACKAGES: Final = (
    "/usr/lib/python3/dist-packages",
    "/usr/local/lib/python3*/dist-packages",
    "/usr/lib/python3*/site-packages",
)
"""Where the system's Python has its packages; a virtual environment does not look there."""

LIBRARIES: Final = ("/usr/lib", "/usr/lib/*-linux-gnu", "/usr/local/lib")
MAKE_VENV: Final = (
    "make the environment again with the system's packages: "
    "python3 -m venv --clear --system-site-packages .venv"
)
OLDER_NUMPY: Final = "pip install 'numpy<2' 'ml-dtypes<0.6'"
"""What to type for a binding that does not know NumPy 2; newer ml-dtypes ask for NumPy 2."""

_PACKAGE: Final = "hailo_platform"
_KNOWS_NUMPY_2: Final = (5, 1, 1)
"""Earlier releases are built with pybind11 2.10, to which an array of NumPy 2 has no bytes. That
version cannot build for Python 3.13: a binding for it was built with a newer one."""


def load_binding() -> Any:  # noqa: ANN401 - a package without types
    """Import the binding."""
    try:
        import hailo_platform
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise binding_mismatch_error(error) from error
        raise missing_binding_error() from error
    except (
        Exception
    ) as error:  # the binding raises its own classes while it is imported
        raise binding_mismatch_error(error) from error
    return hailo_platform


def binding_version(binding: Any) -> str:  # noqa: ANN401
    """Return the binding's version, or `unknown`."""
    return str(getattr(binding, "__version__", "unknown"))


def major(version: str) -> int | None:
    """Return the first number of a version."""
    match = re.match(r"\d+", version)
    return int(match.group()) if match else None


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare it."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def knows_numpy_2(version: str) -> bool:
    """Return whether a binding of this version can take arrays of NumPy 2."""
    numbers = version_numbers(version)
    return not numbers or numbers >= _KNOWS_NUMPY_2 or sys.version_info >= (3, 13)


def installed_version() -> str:
    """Return the version of the binding that can be imported, read from its file; "" without one.

    The Makefile chooses NumPy by it.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return ""
    text = Path(spec.origin).read_text(encoding="utf-8")
    match = re.search(r"^__version__ = .([\d.]+)", text, re.MULTILINE)
    return match.group(1) if match else ""


def why_no_binding() -> str | None:
    """Return why there is no binding to import, `None` if there is one; imports nothing itself."""
    if find_spec(_PACKAGE) is not None:
        return None
    if system_binding() is not None:
        return (
            "the Hailo binding is installed but invisible to this environment (doctor)"
        )
    return "no Hailo binding in this environment"


def system_binding() -> Path | None:
    """Return the binding among the system's packages, whether or not this environment sees it."""
    for folder in _find_folders(SYSTEM_PACKAGES):
        package = folder / _PACKAGE
        if package.is_dir():
            return package
    return None


def library_versions() -> list[str]:
    """Return versions of `libhailort` on this machine, by the names of its files."""
    prefix = "libhailort.so."
    versions = set()
    for folder in _find_folders(LIBRARIES):
        for path in folder.glob(f"{prefix}*"):
            version = path.name.removeprefix(prefix)
            if re.fullmatch(r"\d+\.\d+\.\d+", version):  # not the link libhailort.so.4
                versions.add(version)
    return sorted(versions)


def one_line(error: BaseException) -> str:
    """Return an error's text, short and in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:200]


def missing_binding_error() -> NoBindingError:
    """Return why there is no binding, and how to install it."""
    package = system_binding()
    if package is not None:
        return NoBindingError(
            f"Hailo's Python binding is installed ({display_path(package)}) but invisible to this "
            f"environment ({sys.prefix}); {MAKE_VENV}"
        )
    return NoBindingError(
        f"Hailo's Python binding (hailo_platform) is not installed for {sys.executable}; on a "
        "Raspberry Pi: sudo apt install hailo-all (AI HAT, AI HAT+) or hailo-h10-all (AI HAT+ 2), "
        "or use --encoder-backend onnx"
    )


def binding_mismatch_error(error: BaseException) -> BindingMismatchError:
    """Return why a binding that is there cannot be imported."""
    text = one_line(error)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    missing_library = re.search(r"libhailort\.so\.(\d[\d.]*\d)", text)
    if missing_library is not None:
        versions = ", ".join(library_versions()) or "none"
        return BindingMismatchError(
            f"Hailo's binding is version {missing_library.group(1)}, but libhailort on this "
            f"machine is {versions}; install both from the same release: sudo apt install "
            "--reinstall hailort python3-hailort (on a Hailo-10H: h10-hailort python3-h10-hailort)"
        )
    if "numpy" in text.lower() or "multiarray" in text or "_ARRAY_API" in text:
        return BindingMismatchError(
            f"Hailo's binding does not run with this environment's NumPy ({text}); "
            f"HailoRT 4.x needs: {OLDER_NUMPY}"
        )
    if "_pyhailort" in text and "version" not in text:
        return BindingMismatchError(
            f"Hailo's binding was not built for Python {python} ({text}); use the system's Python: "
            + MAKE_VENV
        )
    return BindingMismatchError(
        f"Hailo's binding cannot be imported ({text}); install it again from the same release as "
        "the library: sudo apt install --reinstall hailort python3-hailort"
    )


def _find_folders(patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))
