#!/usr/bin/env python3
"""Counts lines of comments, messages, help texts and pages that use words of a private language.

Usage: words.py [--list]. Exits with 1 if there are more lines than LIMIT. Such words put a pronoun or an everyday
verb in the place of the noun or the field's term ("what is told" for "the reported text"). CONTRIBUTING.md, 'English'.
"""

import pathlib
import re
import subprocess
import sys

# Lower it with each pass over the text; it never rises.
LIMIT = 27
WORDS = re.compile(
    r"\b((?i:told|tells?|beside|likewise|whoever|nobody|somebody|so many|what is more|of its own|of their own|"
    r"stands (in|on|alone))|is none|are none)\b(?!=)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def texts_of_source(text):
    """(line number, text) of comments and of string literals that hold a sentence."""
    for number, line in enumerate(text.splitlines(), 1):
        comment = line.find("//")
        strings = [s for s in STRING.findall(line[: comment if comment >= 0 else None]) if " " in s]
        yield number, " ".join([*strings, line[comment:] if comment >= 0 else ""])


def texts_of_script(text):
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line


def found(root):
    files = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.proto", "*.md", "*.py", "*.sh", "*.cmake", "dev", "**/CMakeLists.txt"],
                           cwd=root, check=True, capture_output=True, text=True).stdout.split()
    for name in files:
        if name == "tools/dev/words.py":
            continue
        path = root / name
        text = path.read_text(encoding="utf-8")
        lines = texts_of_source(text) if path.suffix in (".cc", ".h", ".proto") else texts_of_script(text)
        for number, line in lines:
            match = WORDS.search(line)
            if match:
                yield f"{name}:{number}: {match[0]}: {line.strip()[:120]}"


def main():
    lines = list(found(pathlib.Path(__file__).resolve().parents[2]))
    if "--list" in sys.argv[1:]:
        print("\n".join(lines))
    print(f"{len(lines)} lines with words of the private language; the limit is {LIMIT}")
    if len(lines) > LIMIT:
        print("the new ones: `git diff` and `tools/dev/words.py --list` show them", file=sys.stderr)
    return len(lines) > LIMIT


if __name__ == "__main__":
    sys.exit(main())
