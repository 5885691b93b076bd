"""Holds the instructions of a decoding step against expected.json: a guard on speed that does not depend on how busy
the machine is.

Usage: count.py PROGRAM COMPILER [--write]. PROGRAM is decode_counted, COMPILER what built it: the numbers hold for one
compiler only. callgrind shows a program a CPU with AVX2 and nothing beyond it, whatever the machine has. Exits with 77
where that can't be: another compiler, a CPU without AVX2, no valgrind.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

EXPECTED = pathlib.Path(__file__).parent / "expected.json"
TOLERANCE = 0.03


def count(program, case):
    """Instructions of a step, encoding and answering included."""
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null", program,
               case["model"], case["precision"], case["source"], str(case["times"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / int(done.stdout)


def main():
    program, compiler = sys.argv[1:3]
    expected = json.loads(EXPECTED.read_text())
    skipped = next((reason for reason, holds in {
        "valgrind is not installed": shutil.which("valgrind"),
        "this CPU has no AVX2": "avx2" in pathlib.Path("/proc/cpuinfo").read_text(),
        f"the numbers are those of {expected['compiler']}, not {compiler}": compiler == expected["compiler"] or "--write" in sys.argv,
    }.items() if not holds), None)
    if skipped:
        print(skipped)
        sys.exit(77)
    wrong = 0
    for case in expected["cases"]:
        counted = count(program, case)
        ratio = counted / case["instructions_a_step"]
        is_right = abs(ratio - 1) <= TOLERANCE
        wrong += not is_right
        print(f"{case['model']} {case['precision']} '{case['source']}': {counted:,.0f} instructions a step, {ratio:.4f} of what is expected"
              f"{'' if is_right else ' (more than 3 % off)'}")
        case["instructions_a_step"] = round(counted)
    if "--write" in sys.argv:
        expected["compiler"] = compiler
        EXPECTED.write_text(json.dumps(expected, indent=2) + "\n")
    elif wrong:
        sys.exit(f"If the change is meant: {' '.join(sys.argv)} --write, and say why in the message of the commit.")


if __name__ == "__main__":
    main()
