"""Programs of others, installed by install_tools.sh, for the scripts of this folder."""

import os
import pathlib
import subprocess
import sys

import served


def path(name):
    """Exits with 77 (skipped) if the program is not installed."""
    program = pathlib.Path(sys.argv[3]) / name
    if not program.exists():
        print(f"{program} is missing: ./dev test installs it (tests/stock_clients/install_tools.sh)")
        sys.exit(77)
    return program


def run(name, *arguments, code=0):
    """Standard output of the program, which must end with `code` (None: with any)."""
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    done = subprocess.run([path(name), *map(str, arguments)], capture_output=True, text=True,
                          env=environment, timeout=240)
    served.check(code is None or done.returncode == code,
                 f"{name} {arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout
