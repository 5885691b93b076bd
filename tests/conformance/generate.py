#!/usr/bin/env python3
"""Writes the suites of conformance cases that the runner reads (docs/conformance.md).

Usage: generate.py OUT [--suite NAME] [--case TEXT...]

OUT/<suite>/ is left as it is if neither a generator nor requirements.txt has changed since it was written.
--case writes only the cases whose name contains one of the texts, into OUT/<suite>-selected/, and always.
"""

import argparse
import concurrent.futures
import hashlib
import importlib
import os
import pathlib
import shutil
import sys
import traceback

HERE = pathlib.Path(__file__).resolve().parent
SUITES = {
    "openvino": ("generator.openvino_build", "generator.openvino_cases"),
    "onnx": ("generator.onnx_build", "generator.onnx_cases"),
    "onnx-nodes": ("generator.onnx_nodes", "generator.onnx_nodes"),
}


def stamp_of_sources():
    digest = hashlib.sha256()
    for file in [
        HERE / "generate.py",
        HERE / "requirements.txt",
        *sorted((HERE / "generator").rglob("*.py")),
    ]:
        digest.update(file.relative_to(HERE).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def save_case(suite, name, folder):
    """Runs in a process of the pool. Returns the case's line of the manifest, or the error as a text."""
    module, package = SUITES[suite]
    function, arguments = importlib.import_module(package).suite.cases[name]
    folder.mkdir(parents=True)
    try:
        return importlib.import_module(module).save(name, function, arguments, folder), None
    except Exception:  # whatever it is, it is the case's fault and must not end the others
        return None, f"{name}: {traceback.format_exc(limit=-4)}"


def write_suite(suite, out, texts):
    """Writes out/<suite>; returns the errors."""
    target = out / (f"{suite}-selected" if texts else suite)
    stamp = stamp_of_sources()
    stamp_file = target / "stamp"
    if not texts and stamp_file.exists() and stamp_file.read_text() == stamp:
        print(f"{suite}: up to date")
        return []
    names = importlib.import_module(SUITES[suite][1]).suite.cases
    names = [name for name in names if not texts or any(text in name for text in texts)]
    stage = out / f"{suite}.new"
    shutil.rmtree(stage, ignore_errors=True)
    lines, errors = [], []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(save_case, suite, name, stage / name) for name in names]
        for name, future in zip(names, futures):
            try:
                line, error = future.result()
            except concurrent.futures.process.BrokenProcessPool:
                error = f"{name}, or one that ran with it, ended its process"
            if error:
                errors.append(error)
            else:
                name, tolerance, operators = line
                lines.append(f"{name}\t{tolerance:g}\t{','.join(operators)}\n")
    if errors and not texts:
        return errors
    (stage / "manifest.tsv").write_text("".join(lines))
    (stage / "stamp").write_text(stamp)
    shutil.rmtree(target, ignore_errors=True)
    stage.rename(target)
    print(f"{suite}: {len(lines)} cases in {target}")
    return errors


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--case", nargs="+", default=[], metavar="TEXT")
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE))
    arguments.out.mkdir(parents=True, exist_ok=True)
    errors = []
    for suite in [arguments.suite] if arguments.suite else SUITES:
        errors += write_suite(suite, arguments.out, arguments.case)
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
