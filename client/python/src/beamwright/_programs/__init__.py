"""Where the programs of Beamwright are.

A wheel for one platform puts them into bin/ of this folder, what they load into lib/, and models into
models/. The pure wheel has none of them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Sequence

from .._errors import ServerError

_FOLDER = pathlib.Path(__file__).resolve().parent / "bin"


def packaged(name: str) -> pathlib.Path | None:
    """The program as the wheel brings it; None in the pure one."""
    path = _FOLDER / name
    return path if path.is_file() else None


def model(path: pathlib.Path) -> pathlib.Path | None:
    """The model that the wheel brings, by its name or as the repository has it: g2p-en, models/g2p-en."""
    folder = _FOLDER.parent / "models" / path.name
    return folder if path.parts in {(path.name,), ("models", path.name)} and folder.is_dir() else None


def find(name: str, variables: Sequence[str] = ()) -> pathlib.Path:
    """The program of this name: of the wheel, else named by a variable, else on the path.

    Raises:
        ServerError: It is nowhere, or what a variable names is no program.
    """
    if (path := packaged(name)) is not None:
        return path
    for variable in variables:
        if value := os.environ.get(variable):
            return checked(value, variable)
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
