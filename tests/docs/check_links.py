#!/usr/bin/env python3
"""Checks the links of the documentation, and that every heading cited from code exists.

Usage: check_links.py ROOT. In docs/, and README.md, CONTRIBUTING.md and SECURITY.md of any folder: a relative link leads to a file, and
its anchor to a heading. In all files: a citation such as (docs/numerics.md, 'Precision') names a heading of that page.
Prints what is wrong and exits with 1 if anything is.
"""

import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")
CITED = re.compile(r"docs/([a-z0-9-]+\.md), '([^'\n]{3,60})'")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def headings_of(page):
    """(anchors, titles) of a page."""
    titles = [title.replace("`", "") for title in re.findall(r"^#+ (.*)$", CODE.sub("", page), re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, titles


def broken_links(root, name, pages):
    path = root / name
    for target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        led = (path.parent / file).resolve() if file else path.resolve()
        if not led.exists():
            yield f"{name}: {target}: no such file"
        elif anchor and led in pages and anchor not in pages[led][0]:
            yield f"{name}: {target}: no such heading"


def wrong_citations(root, name, pages):
    try:
        text = (root / name).read_text(encoding="utf-8")
    except (UnicodeDecodeError, IsADirectoryError):
        return
    # A citation may go over two lines of a comment.
    for page, title in CITED.findall(re.sub(r"\n\s*(//|#|\*)? ?", " ", text)):
        path = (root / "docs" / page).resolve()
        if path not in pages:
            yield f"{name}: docs/{page}: no such page"
        elif not any(title in found for found in pages[path][1]):
            yield f"{name}: docs/{page}, '{title}': no such heading"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.split("\n")
    documents = [name for name in files if re.fullmatch(r"docs/[^/]+\.md|(.*/)?(README|CONTRIBUTING|SECURITY)\.md", name)]
    pages = {(root / name).resolve(): headings_of((root / name).read_text(encoding="utf-8")) for name in documents}
    faults = [fault for name in documents for fault in broken_links(root, name, pages)]
    for name in filter(None, files):
        if not name.startswith(("docs/images/", "tests/fuzz/corpus/", "CHANGELOG.md")) and (root / name).is_file():
            faults += wrong_citations(root, name, pages)
    print("\n".join(faults) or f"links of {len(documents)} pages lead somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
