#!/usr/bin/env python3
"""Runs the commands of the README in their order in one shell, and compares what it says they print.

Usage: run_in_one_shell.py ROOT BIN VENV. Commands are those of run_readme.py's blocks, typed into one bash as they are. It
runs in a separate network, where the ports are free, in a folder that looks like a checkout with the programs of BIN
built. pip finds no index there: what the package needs comes from VENV. Exits with 77 if there is no VENV, or if the machine
allows no namespaces.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fleet"))
import run_readme
import sandbox

MARK = "END OF COMMAND"


def lay_out(root, bin_folder, checkout):
    for name in ("models", "dev", "README.md"):
        (checkout / name).symlink_to(root / name)
    # pip builds in the folder of the package.
    shutil.copytree(root / "client/python", checkout / "client/python")
    (checkout / "build").mkdir()
    (checkout / "build/bin").symlink_to(bin_folder)


def type_into_one_shell(commands, checkout, environment):
    """What each command prints: a list of lines a command."""
    script = "".join(f"{command}\necho '{MARK}'\n" for _, command, _ in commands)
    done = subprocess.run(["bash"], input=script, text=True, env=environment, cwd=checkout, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240, check=False)
    return [printed.splitlines() for printed in done.stdout.split(f"{MARK}\n")[:-1]]


def main():
    root, bin_folder, venv = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    packages = list(venv.glob("lib/python3*/site-packages"))
    if not packages:
        print(f"{venv} is missing: ./dev test makes it from tests/python/requirements.txt")
        return 77
    sandbox.enter()
    commands = list(run_readme.runnable_commands((root / "README.md").read_text(encoding="utf-8")))
    # The Python that VENV was made with is the one that its packages fit.
    home = re.search(r"^home = (.*)$", (venv / "pyvenv.cfg").read_text(encoding="utf-8"), re.MULTILINE)[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BEAMWRIGHT_")}
    environment |= {"PATH": f"{home}:{environment['PATH']}", "PYTHONPATH": str(packages[0]), "PIP_NO_INDEX": "1",
                    "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = pathlib.Path(folder, "beamwright")
        checkout.mkdir()
        lay_out(root, bin_folder, checkout)
        printed = type_into_one_shell(commands, checkout, environment)
    printed += [["(not reached)"]] * (len(commands) - len(printed))
    for (number, command, expected), lines in zip(commands, printed):
        expected, lines = run_readme.stripped(expected), run_readme.stripped(lines)
        if len(lines) != len(expected) or not all(map(run_readme.same_line, expected, lines)):
            wrong += 1
            print(f"README.md:{number}: $ {command}\nprints\n" + "\n".join(lines))
            print("the README says\n" + "\n".join(expected))
    print(f"{len(commands)} commands run, {wrong} wrong")
    return 1 if wrong or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
