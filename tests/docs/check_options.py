#!/usr/bin/env python3
"""Checks the table of options in docs/decoding.md against decode.proto and the tests.

Usage: check_options.py ROOT. Every field of DecodeOptions has one row, under the heading of its group, with the
default and the range of its rule; tests/engine/search/README.md names tests of every field; every test that they
name in the form `Suite.Case` exists. Prints what is wrong and exits with 1 if anything is.
"""

import pathlib
import re
import sys

FIELD = re.compile(r"^  (?:optional |repeated )?[\w.]+ (\w+) = \d+(?: \[\(rule\) = \{(.*?)\n  \}\])?;",
                   re.DOTALL | re.MULTILINE)
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMED = re.compile(r"`([A-Z]\w+\.[A-Z]\w+)`")


def fields_of(proto):
    """Name -> (group, default, range), in the order of the file."""
    message = re.search(r"message DecodeOptions \{(.*?)\n\}", proto, re.DOTALL).group(1)
    fields = {}
    for name, rule in FIELD.findall(message):
        values = dict(re.findall(r"(\w+): (?:\"((?:[^\"])*)\"|[-\d.e]+)", rule))
        values.update(re.findall(r"(\w+): ([-\d.e]+)", rule))
        low, high = values.get("minimum"), values.get("maximum")
        numbers = f"{low} to {high}" if high else f"at least {low}" if low else ""
        allowed = f"{numbers} {values.get('unit', '')}".strip()
        if "max_items" in values:
            allowed = "; ".join(filter(None, [allowed, f"at most {values['max_items']}"]))
        fields[name] = (values["group"], values.get("default_value", ""), allowed)
    return fields


def rows_of(page):
    """(name, (group, default, range)) of each row of the table."""
    rows = []
    group = None
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4:
            continue
        if heading := re.fullmatch(r"\*\*(.*)\*\*", cells[0]):
            group = heading.group(1)
        elif name := re.fullmatch(r"`(\w+)`", cells[0]):
            rows.append((name.group(1), (group, cells[1], cells[2])))
    return rows


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs/decoding.md").read_text(encoding="utf-8")
    fields = fields_of((root / "proto/beamwright/v1/decode.proto").read_text(encoding="utf-8"))
    faults = []
    rows = rows_of(page)
    for name, found in rows:
        if name not in fields:
            faults.append(f"{name}: is not a field of DecodeOptions")
        elif found != fields[name]:
            faults.append(f"{name}: the page has {found}, the proto {fields[name]}")
    names = [name for name, _ in rows]
    for name in fields:
        if names.count(name) != 1:
            faults.append(f"{name}: has {names.count(name)} rows, must have one")
    tests = {".".join(test) for path in (root / "tests").rglob("*_test.cc")
             for test in TEST.findall(path.read_text(encoding="utf-8"))}
    proofs = (root / "tests/engine/search/README.md").read_text(encoding="utf-8")
    proven = set(re.findall(r"`([a-z_0-9]+)`", " ".join(re.findall(r"^\| (`[a-z].*?) \| \S", proofs, re.MULTILINE))))
    faults += [f"{name}: has no test in tests/engine/search/README.md" for name in fields if name not in proven]
    all_named = set(NAMED.findall(page + proofs))
    for named in sorted(all_named):
        if named not in tests:
            faults.append(f"{named}: no such test")
    print("\n".join(faults) or f"{len(fields)} options, {len(all_named)} tests named")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
