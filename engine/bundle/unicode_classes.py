#!/usr/bin/env python3
"""Writes unicode_classes.inc: the letters, marks and numbers of Unicode, as the regular expressions of Hugging Face's
tokenizers see them (package `tokenizers`). Usage: unicode_classes.py OUT
"""

import sys

from tokenizers import Regex, pre_tokenizers

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def members(pattern):
    """The characters that the pattern matches: those that a split by it removes."""
    split = pre_tokenizers.Split(Regex(pattern + "+"), "removed")
    kept = set()
    for at in range(0, len(CHARACTERS), 4096):
        block = CHARACTERS[at : at + 4096]
        for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, block))):
            kept.update(block[begin:end])
    return set(CHARACTERS) - kept


def bounds(found):
    """First and one past the last of each run."""
    return [c for c in range(0x110001) if (c in found) != (c - 1 in found)]


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("// Written by unicode_classes.py.\n")
        for name, pattern in (("kLetters", r"\p{L}"), ("kMarks", r"\p{M}"), ("kNumbers", r"\p{N}")):
            out.write(f"constexpr uint32_t {name}[] = {{\n")
            line = "   "
            for bound in bounds(members(pattern)):
                if len(line) + len(f" {bound},") > 100:
                    out.write(line + "\n")
                    line = "   "
                line += f" {bound},"
            out.write(line + "\n};\n")


main()
