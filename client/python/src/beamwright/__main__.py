"""`python -m beamwright ...`: the command line of Beamwright, where its program is installed."""

from __future__ import annotations

import os
import sys

from . import _programs
from ._errors import ServerError


def main() -> None:
    """Becomes the program `beamwright`."""
    try:
        program = _programs.find("beamwright", ["BEAMWRIGHT_PROGRAM"])
    except ServerError as error:
        sys.exit(f"python -m beamwright: {error}")
    os.execv(program, ["beamwright", *sys.argv[1:]])


if __name__ == "__main__":
    main()
