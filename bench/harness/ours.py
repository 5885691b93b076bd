"""Our programs, run as anybody would run them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import measure

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"


def run_json(command: list[object]) -> object:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(str(command[0])).name}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def _operator(name: str, at_least: float) -> dict[str, object]:
    result = run_json([BIN / "beamwright-bench-ops", f"--benchmark_filter=^{name}/real_time$",
                       "--benchmark_format=json", f"--benchmark_min_time={at_least}"])
    found = result["benchmarks"][0]
    if found.get("error_occurred"):
        raise RuntimeError(f"{name}: {found['error_message']}")
    return found


def per_second(limit: str, threads: int, at_least: float) -> float:
    """Operations or bytes a second of a benchmark of bench/machine_bench.cc."""
    found = _operator(f"{limit}/threads:{threads}", at_least)
    return found["per_second"] * (found["real_time"] / found["cpu_time"] if measure.clock == "cpu" else 1)


def operator(name: str, at_least: float) -> Callable[[], float]:
    """Seconds of a benchmark of bench/ops_bench.cc."""
    def run() -> float:
        found = _operator(name, at_least)
        return found[f"{'cpu' if measure.clock == 'cpu' else 'real'}_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[found["time_unit"]]
    return run


def decode(bundle: Path, *flags: object) -> list[dict[str, object]]:
    """The cases of `beamwright-bench decode`."""
    return run_json([BIN / "beamwright-bench", "decode", "--model", bundle, "--json", *flags])


def random_bundle(folder: Path, *flags: object) -> Path:
    """A bundle of bench/random_bundle.py, made once."""
    if not (folder / "model.textproto").exists():
        subprocess.run([sys.executable, ROOT / "bench/random_bundle.py", "--out", folder,
                        *map(str, flags)], check=True)
    return folder
