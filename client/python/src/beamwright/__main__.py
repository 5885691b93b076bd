"""`python -m beamwright ...`: the command line of Beamwright, where its program is installed."""

from __future__ import annotations

import os
import sys

from . import _programs
from ._errors import ServerError


def _become(name: str, said_by: str, variable: str) -> None:
    try:
        program = _programs.find(name, [variable])
    except ServerError as error:
        sys.exit(f"{said_by}: {error}")
    os.execv(program, [name, *sys.argv[1:]])


def main() -> None:
    """Becomes the program `beamwright`."""
    _become("beamwright", "python -m beamwright", "BEAMWRIGHT_PROGRAM")


def server() -> None:
    """Becomes beamwright-server; a script of wheels with programs."""
    _become("beamwright-server", "beamwright-server", "BEAMWRIGHT_SERVER_PROGRAM")


def graph() -> None:
    """Becomes beamwright-graph."""
    _become("beamwright-graph", "beamwright-graph", "BEAMWRIGHT_GRAPH_PROGRAM")


if __name__ == "__main__":
    main()
