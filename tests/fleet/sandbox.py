"""Namespaces of our own: network, mounts and processes. Whatever a script starts there ends with it, and no other
program of this machine sees its addresses and mounts."""

import os
import signal
import subprocess
import sys

MARK = "BEAMWRIGHT_TEST_SANDBOX"
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def enter():
    """Starts the program again in a sandbox and ends with its code; returns in the sandbox. Exits with 77 (skipped)
    where the machine does not allow it."""
    if MARK in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0:
        print("this machine allows no namespaces: run it as root")
        sys.exit(77)
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {MARK: "1", "PYTHONDONTWRITEBYTECODE": "1"}
    inside = subprocess.Popen([*UNSHARE, sys.executable, *sys.argv], env=environment)
    # The first process of a namespace and unshare itself do not take SIGTERM; without this they would outlive us.
    signal.signal(signal.SIGTERM, lambda *_: inside.kill())
    sys.exit(inside.wait())
