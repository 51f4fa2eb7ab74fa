"""The Hailo Dataflow Compiler's Python package: imported here and nowhere else, when needed."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from .job import DEVICE, MODEL, BuildError, one_line

VERSIONS = {"hailo8": ((3, 31), (4, 0)), "hailo8l": ((3, 31), (4, 0)), "hailo10h": ((5, 0), (6, 0))}
"""First version that compiles for the chip, and the first that no longer does."""

_DISTRIBUTION = "hailo_dataflow_compiler"


def load_sdk() -> Any:  # noqa: ANN401 - a package without types
    """Import the compiler's package."""
    try:
        import hailo_sdk_client
    except ModuleNotFoundError as error:
        if error.name != "hailo_sdk_client":
            raise BuildError(
                DEVICE, f"the Hailo compiler lacks {error.name}; install its package again"
            ) from error
        raise BuildError(
            DEVICE,
            "the Hailo Dataflow Compiler (hailo_sdk_client) is not installed for "
            f"{sys.executable}; "
            "use the Python that has it (compile --python PYTHON; of a bundle: PYTHON "
            "build.py), or pack the build with compile --bundle OUT.zip and run it where it is",
        ) from error
    except Exception as error:
        raise BuildError(
            DEVICE, f"the Hailo compiler cannot be loaded ({one_line(error)}); install it again"
        ) from error
    return hailo_sdk_client


def compiler_version(sdk: Any, arch: str) -> str:  # noqa: ANN401
    """Return the compiler's version, if it is one for this chip.

    Raises:
        BuildError: it cannot be told, or does not compile for the chip.
    """
    version = getattr(sdk, "__version__", None) or _installed_version()
    numbers = re.match(r"(\d+)\.(\d+)", str(version))
    first, beyond = VERSIONS[arch]
    wanted = f"{first[0]}.{first[1]} or newer, below {beyond[0]}.0"
    if numbers is None:
        raise BuildError(DEVICE, f"the Hailo compiler has no readable version, expected {wanted}")
    if not first <= (int(numbers.group(1)), int(numbers.group(2))) < beyond:
        raise BuildError(
            DEVICE,
            f"Hailo compiler {version} does not compile for {arch}, expected {wanted}; install "
            "that one, or name a Python that has it with --python",
        )
    return str(version)


def network_description(runner: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the parsed network (HN) of a runner.

    Versions differ in what gives it: a dictionary or JSON text, of two names.
    """
    for name in ("get_hn_dict", "get_hn"):
        getter = getattr(runner, name, None)
        if getter is None:
            continue
        hn = getter()
        hn = json.loads(hn) if isinstance(hn, str) else hn
        if isinstance(hn, dict) and "layers" in hn:
            return hn
    raise BuildError(
        MODEL,
        "this compiler does not tell the parsed network's layers; give a --script of your own",
    )


def new_runner(sdk: Any, *, arch: str | None = None, har: Path | None = None) -> Any:  # noqa: ANN401
    """Return a runner for a chip, or one that goes on from a HAR."""
    return sdk.ClientRunner(hw_arch=arch) if har is None else sdk.ClientRunner(har=str(har))


def _installed_version() -> str | None:
    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
