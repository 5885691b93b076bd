"""Where the programs of Beamwright are.

A wheel for one platform puts them into bin/ of this folder, what they load into lib/, and models into
models/. The pure wheel has none of them; installed from a checkout of the repository, the package finds
what the checkout has built.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import pathlib
import shutil
import urllib.parse
import urllib.request
from collections.abc import Sequence

from .._errors import ServerError

_FOLDER = pathlib.Path(__file__).resolve().parent / "bin"
_IN_CHECKOUT = pathlib.PurePath("client", "python")


def packaged(name: str) -> pathlib.Path | None:
    """The program as the wheel brings it; None in the pure one."""
    path = _FOLDER / name
    return path if path.is_file() else None


def model(path: pathlib.Path) -> pathlib.Path | None:
    """The model that the wheel brings, by its name or as the repository has it: g2p-en, models/g2p-en."""
    folder = _FOLDER.parent / "models" / path.name
    return folder if path.parts in {(path.name,), ("models", path.name)} and folder.is_dir() else None


@functools.cache
def _checkout() -> pathlib.Path | None:
    """The root of the repository that this package is imported or was installed from; None without one."""
    # src/beamwright/_programs/__init__.py, as with PYTHONPATH and `pip install --editable`.
    folders = [pathlib.Path(__file__).resolve().parents[3]]
    try:
        # pip writes where it installed from: {"url": "file:///.../client/python", "dir_info": {}}.
        installed_from = importlib.metadata.distribution("beamwright").read_text("direct_url.json")
        url = urllib.parse.urlsplit(json.loads(installed_from or "{}").get("url", ""))
        if url.scheme == "file":
            folders.append(pathlib.Path(urllib.request.url2pathname(url.path)))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        pass
    for folder in folders:
        if folder.parts[-2:] == _IN_CHECKOUT.parts and (folder / "pyproject.toml").is_file():
            return folder.parents[1]
    return None


def built(path: str) -> pathlib.Path | None:
    """A file that the checkout of this package has built, such as bin/beamwright-server."""
    root = _checkout()
    file = root / "build" / path if root else None
    return file if file and file.is_file() else None


def find(name: str, variables: Sequence[str] = ()) -> pathlib.Path:
    """The program of this name: of the wheel, else named by a variable, else built in the checkout that this
    package was installed from, else on the path.

    Raises:
        ServerError: It is nowhere, or what a variable names is no program.
    """
    if (path := packaged(name)) is not None:
        return path
    for variable in variables:
        if value := os.environ.get(variable):
            return checked(value, variable)
    if (path := built(f"bin/{name}")) is not None:
        return path
    if found := shutil.which(name):
        return pathlib.Path(found)
    named = f", name it by {variables[0]}" if variables else ""
    raise ServerError(
        f"the program {name} was not found. Build it ('./dev build' in Beamwright's repository leaves it in "
        f"build/bin){named}, or put its folder on PATH."
    )


def checked(path: str | os.PathLike[str], said_by: str) -> pathlib.Path:
    """The path, if a program is there."""
    program = pathlib.Path(path)
    if program.is_dir():
        raise ServerError(f"{said_by}: {program} is a folder; name the program in it")
    if not program.is_file():
        raise ServerError(f"{said_by}: there is no file {program}")
    if not os.access(program, os.X_OK):
        raise ServerError(f"{said_by}: {program} may not be executed (chmod +x)")
    return program
