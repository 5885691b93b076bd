"""What the figures were measured on."""

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.ours import ROOT


def _cpuinfo(field: str) -> str:
    found = re.search(rf"^{field}\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].strip() if found else ""


# Environment in which OpenVINO uses nothing wider than AVX2, in its own kernels and in oneDNN's.
AVX2 = {"OV_CPU_MAX_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


def held_to_avx2() -> bool:
    """Whether this process, and what it starts, uses nothing wider than AVX2."""
    return all(os.environ.get(name) == value for name, value in AVX2.items())


def has(flag: str) -> bool:
    """A flag as the kernel names it, of what may be used."""
    wider = flag.startswith(("avx512", "amx")) and held_to_avx2()
    return flag in _cpuinfo("flags").split() and not wider


def bf16_class() -> str:
    """The numerics class of bf16 that the CPU's own instructions compute, if it has them (docs/numerics.md)."""
    if has("amx_bf16"):
        return "bf16-amx"
    return "bf16-dot" if has("avx512_bf16") else "bf16"


def cpu() -> str:
    widest = next((label for flag, label in (
        ("amx_int8", "AMX"), ("avx512_bf16", "AVX-512 with VNNI and BF16"),
        ("avx512_vnni", "AVX-512 with VNNI"), ("avx512f", "AVX-512"), ("avx2", "AVX2"))
        if has(flag)), "no AVX2")
    widest += " of what it has" * held_to_avx2()
    return f"{os.cpu_count()} x {_cpuinfo('model name') or platform.machine()}, {widest}"


class Neighbours:
    """How much of the machine others use while we measure."""

    def __init__(self) -> None:
        self._busy, self._total = self._all()
        self._own = self._ours()

    def share(self) -> float:
        """Of the CPU time since construction, what neither this process nor its ended children used."""
        busy, total = self._all()
        foreign = busy - self._busy - (self._ours() - self._own)
        return max(0.0, foreign / max(1e-9, total - self._total))

    def sentence(self) -> str:
        share = self.share()
        return (f"Other processes used {100 * share:.0f} % of the machine's CPU time meanwhile" +
                (": figures are good for ratios at most." if share > 0.05 else "."))

    @staticmethod
    def _all() -> tuple[float, float]:
        """CPU seconds, of all processors together: busy ones (stolen time among them), and all."""
        ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        idle = ticks[3] + ticks[4]
        per_second = os.sysconf("SC_CLK_TCK")
        return (sum(ticks) - idle) / per_second, sum(ticks) / per_second

    @staticmethod
    def _ours() -> float:
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system


def revision() -> str:
    """The commit, with -dirty where tracked files differ from it other than the pages that benchmarks write."""
    def git(*arguments: object) -> str:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False).stdout.strip()
    commit = git("describe", "--always", "--exclude=*")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results.md", ":!docs/images")
    return commit + ("-dirty" if changed else "") or "unknown"


def versions() -> dict[str, str]:
    found = {}
    for name in ("openvino", "onnxruntime", "numpy", "grpcio"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    torch = subprocess.run(["dpkg-query", "--show", "--showformat", "${Version}", "python3-torch"],
                           capture_output=True, text=True, check=False)
    found["torch"] = torch.stdout.strip() or "not installed"
    return found
