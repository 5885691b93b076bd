#!/usr/bin/env python3
"""Puts the portable programs and their files into OUT/image, for the image.

Usage: stage.py OUT. In its parent folder: files version, commit and epoch.
"""

import pathlib
import sys

import common
import portable

if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    portable.stage_image(out)
    for name, value in (("version", common.VERSION), ("commit", common.commit()), ("epoch", common.epoch())):
        (out / name).write_text(f"{value}\n")
