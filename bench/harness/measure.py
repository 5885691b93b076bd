"""Workloads, measured side by side: sides take turns, so that a noisy neighbour meets them all."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

OURS = "Beamwright"
LIMIT = "what the machine can do"  # as bench/machine_bench.cc measures it

# Seconds after which threads of the side before, which wait for more by spinning, have gone to sleep.
QUIET = 0.3

# "wall", or "cpu": CPU time, for one thread on a machine that others use too.
clock = "wall"


def now() -> float:
    return time.process_time() if clock == "cpu" else time.perf_counter()


def seconds_of(run: Callable[[], object], at_least: float = 0.3) -> float:
    """The median time of a call, after one that is not counted. A long one is made once and counted: what its first time
    adds is in one round alone, and is not the median of five."""
    start = now()
    run()
    if (first := now() - start) > 5 * at_least:
        return first
    times: list[float] = []
    end = time.perf_counter() + at_least
    while time.perf_counter() < end or len(times) < 3:
        start = now()
        run()
        times.append(now() - start)
        if sum(times) > 10 * at_least:
            break
    return statistics.median(times)


@dataclass
class Bar:
    """What we want: ours is at least `times` as fast as the fastest of `sides` (all but limits, if empty), or
    takes at most `seconds`."""
    times: float = 0
    sides: tuple[str, ...] = ()
    seconds: float = 0
    text: str = ""  # for the table: "1.0 x the fused"


@dataclass
class Workload:
    """One line of the table. A side returns seconds for one unit of the same work."""
    name: str
    sides: dict[str, Callable[[], float]]
    bars: list[Bar]
    unit: str = "ms"     # what the table shows: ms, us, or something per second
    per_unit: float = 1  # units of work in one measured unit: tokens, for "tokens/s"
    limits: tuple[str, ...] = ()  # sides that show what the machine gives and are no peers
    threads: int = 1
    note: str = ""


@dataclass
class Verdict:
    bar: Bar
    ratio: float  # reached if at least 1 of what the bar asks for
    reached: bool


@dataclass
class Outcome:
    workload: Workload
    seconds: dict[str, list[float]] = field(default_factory=dict)  # by side, a value a round
    failures: dict[str, str] = field(default_factory=dict)         # sides that could not run, and why

    def median(self, side: str) -> float:
        return statistics.median(self.seconds[side])

    def peers(self) -> list[str]:
        return [s for s in self.seconds if s != OURS and s not in self.workload.limits]

    def noise(self) -> float:
        """The largest spread of a side's rounds, (max - min) / median."""
        return max(((max(times) - min(times)) / statistics.median(times)
                    for times in self.seconds.values() if len(times) > 1), default=0)

    def ratio(self, sides: tuple[str, ...] = ()) -> float | None:
        """How many times as fast as the fastest of these sides, or of all peers; None: not to be said."""
        measured = [s for s in (sides or self.peers()) if s in self.seconds]
        if not measured or OURS not in self.seconds:
            return None
        return min(self.median(s) for s in measured) / self.median(OURS)

    def verdicts(self) -> list[Verdict]:
        found = []
        for bar in self.workload.bars:
            if bar.seconds and OURS in self.seconds:
                found.append(Verdict(bar, bar.seconds / self.median(OURS),
                                     self.median(OURS) <= bar.seconds))
            elif (ratio := self.ratio(bar.sides)) is not None:
                found.append(Verdict(bar, ratio, ratio >= bar.times))
        return found

    def shown(self, side: str) -> str:
        """The median of the rounds, and in brackets the best of them."""
        return f"{self._as_unit(self.median(side))} ({self._as_unit(min(self.seconds[side]))})"

    def _as_unit(self, value: float) -> str:
        if self.workload.unit in ("ms", "us"):
            shown = value * {"ms": 1e3, "us": 1e6}[self.workload.unit]
            return f"{shown:.3g}" if shown < 1000 else f"{shown:,.0f}"
        return f"{self.workload.per_unit / value:,.0f}"


def measure(workload: Workload, rounds: int) -> Outcome:
    """A side that fails is left out and named; the others are measured."""
    outcome = Outcome(workload)
    for _ in range(rounds):
        for side, run in workload.sides.items():
            if side in outcome.failures:
                continue
            time.sleep(QUIET)
            try:
                outcome.seconds.setdefault(side, []).append(run())
            except Exception as error:  # whatever a peer raises: the run goes on
                outcome.seconds.pop(side, None)
                outcome.failures[side] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return outcome
