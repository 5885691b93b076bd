#!/usr/bin/env python3
"""Puts the pictures that tests of the page have taken into docs/images: pictures.py, from the repository's root."""

import pathlib
import shutil

for name in ("page.png", "page-listen.png", "page-beam.png", "page-status.png"):
    shutil.copy(pathlib.Path("build/page") / name, pathlib.Path("docs/images") / name)
