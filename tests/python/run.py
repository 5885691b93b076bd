#!/usr/bin/env python3
"""Runs tests of the Python package with the Python of a virtual environment.

Usage: run.py VENV PROGRAMS ARGUMENT...
       run.py VENV PROGRAMS --program FILE

The arguments are pytest's, PROGRAMS is the folder of the programs
(build/bin); the library is in build/lib. Exits with 77 if the environment is not there.
"""

import os
import pathlib
import sys


def main():
    python = pathlib.Path(sys.argv[1]) / "bin" / "python"
    if not python.exists():
        print(f"{python} is missing: ./dev test makes it from tests/python/requirements.txt")
        sys.exit(77)
    # What the caller has set for a client is not for the tests' ones; nor are proxies.
    for name in list(os.environ):
        if name.startswith("BEAMWRIGHT_") or name.lower() in {"http_proxy", "https_proxy", "grpc_proxy"}:
            del os.environ[name]
    programs = pathlib.Path(sys.argv[2]).resolve()
    os.environ["BEAMWRIGHT_SERVER_PROGRAM"] = str(programs / "beamwright-server")
    os.environ["BEAMWRIGHT_GRAPH_PROGRAM"] = str(programs / "beamwright-graph")
    os.environ["BEAMWRIGHT_LIBRARY"] = str(programs.parent / "lib" / "libbeamwright.so.1")
    os.environ["PYTHONPATH"] = str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python" / "src")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["OMP_WAIT_POLICY"] = "passive"
    pytest = ["-m", "pytest", "-p", "no:cacheprovider", "-rs",
              "-o", "faulthandler_timeout=120"]  # says where a test hangs
    os.execv(python, [str(python), *(sys.argv[4:] if sys.argv[3] == "--program" else [*pytest, *sys.argv[3:]])])


if __name__ == "__main__":
    main()
