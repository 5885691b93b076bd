"""h2spec against the gRPC listener. gRPC's HTTP/2 is not ours to mend: the cases that its library is known to
fail are listed, so that a change of library or of what we set shows."""

import pathlib
import tempfile
import xml.etree.ElementTree as ElementTree

import served
import tool

# Failed by gRPC 1.51 as such: it closes or ignores where the specification wants an error of another kind.
KNOWN = set((pathlib.Path(__file__).parent / "h2spec_known.txt").read_text().splitlines())


def main():
    tool.path("h2spec")
    with tempfile.TemporaryDirectory() as folder, served.server() as (address, _, _):
        host, port = address.split(":")
        report = pathlib.Path(folder) / "report.xml"
        output = tool.run("h2spec", "-h", host, "-p", port, "--timeout", 3, "-j", report, code=None)
        failed = set()
        total = 0
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            total += 1
            if case.find("failure") is not None or case.find("error") is not None:
                failed.add(f"{case.get('package')}: {case.get('classname')}")
        served.check(total > 100, output)
        served.check(failed <= KNOWN, f"new failures: {sorted(failed - KNOWN)}")
        # Whatever was thrown at it, the server still answers.
        served.expected(address)
        print(f"h2spec: {total} cases, {len(failed)} failed, all of them known")


if __name__ == "__main__":
    main()
