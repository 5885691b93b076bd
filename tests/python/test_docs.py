"""The pages' programs run, and print what the pages say.

A page's blocks ```python are run one after another, as one program, in a folder that has models/ and exports/. What a block
prints is what the block ```text behind it shows, where there is one; "..." stands for anything.
"""

import contextlib
import io
import re

import pytest
from conftest import ROOT, unpacked

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["docs/python.md", "client/python/README.md"])
def test_blocks(page, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(ROOT / "models")
    (tmp_path / "exports").symlink_to(unpacked("tools/graph/testdata/step-lstm"))
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in BLOCK.finditer(text)]
    assert any(kind == "python" for kind, _, _ in blocks)
    scope = {"__name__": "__main__"}
    try:
        for place, (kind, code, line) in enumerate(blocks):
            if kind == "text":
                continue
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * (line - 1) + code, page, "exec"), scope)
            if place + 1 < len(blocks) and blocks[place + 1][0] == "text":
                expected = re.escape(blocks[place + 1][1]).replace(re.escape("..."), ".*")
                assert re.fullmatch(expected, output.getvalue()), f"{page}:{line}\n{output.getvalue()}"
    finally:
        for name in ("client", "server"):
            if name in scope:
                getattr(scope[name], "close" if name == "client" else "stop")()
