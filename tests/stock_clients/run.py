#!/usr/bin/env python3
"""Runs a script of this folder with the Python of a virtual environment.

Usage: run.py VENV SCRIPT ARGUMENT... Exits with 77 if the environment is not there.
"""

import os
import pathlib
import sys


def main():
    python = pathlib.Path(sys.argv[1]) / "bin" / "python"
    if not python.exists():
        print(f"{python} is missing: ./dev test makes it")
        sys.exit(77)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # A server of this machine is asked, never through a proxy.
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        os.environ.pop(name, None)
    os.execv(python, [str(python), *sys.argv[2:]])


if __name__ == "__main__":
    main()
