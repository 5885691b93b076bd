"""The sections of bench/results.md, written from what was measured: no figure there comes from elsewhere."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import machine
from harness.measure import OURS, Outcome, Verdict
from workloads import streams, traffic
from workloads.serving import CONCURRENCIES, QUEUE, RUNNING, CallCost, Overload, Served
from workloads.traffic import Traffic

Lines = list[str]


HEADINGS = {"operators": "Loops and operators", "small": "A small model", "large": "A large model",
            "large-avx2": "The large model with AVX2 alone", "serving": "Servers",
            "teams": "Threads in one stream and in several", "traffic": "Traffic as it is",
            "frames": "Search by frames", "streams": "Streams of sound",
            "streams-full": "Streams of sound, a large encoder", "streams-int8": "Streams of sound, a large encoder in 8 bits",
            "streams-zipformer": "Streams of sound, a zipformer", "streams-zipformer-int8": "Streams of sound, a zipformer in 8 bits",
            "streams-crowd": "More streams than a core bears",
            "scaling": "How cost grows"}


@dataclass
class Origin:
    """Where a section's figures come from."""
    command: str
    neighbours: machine.Neighbours
    clock: str = "wall"

    def lines(self) -> Lines:
        return [f"Written by `{self.command}` on {time.strftime('%Y-%m-%d')}; Beamwright {machine.revision()}, "
                f"{machine.cpu()}.", self.neighbours.sentence(), ""]


def yes(reached: bool) -> str:
    return "reached" if reached else "**not reached**"


def _verdict(verdict: Verdict) -> str:
    times = "" if verdict.bar.seconds else f" ({verdict.ratio:.2f})"
    return f"{verdict.bar.text}: {yes(verdict.reached)}{times}"


def _row(outcome: Outcome) -> str:
    workload = outcome.workload
    others = [f"{side} {outcome.shown(side)}" for side in outcome.seconds
              if side != OURS and side not in workload.limits]
    limits = [f"{side} {outcome.shown(side)}" for side in workload.limits if side in outcome.seconds]
    ratio = outcome.ratio()
    own = f"{outcome.shown(OURS)}" if OURS in outcome.seconds else "failed"
    return (f"| {workload.name} | {workload.threads} | {workload.unit} | {own} | {', '.join(others) or '-'} | "
            f"{', '.join(limits) or '-'} | {f'{ratio:.2f}' if ratio else '-'} | "
            f"{'; '.join(map(_verdict, outcome.verdicts())) or '-'} | {100 * outcome.noise():.0f} % |")


def engine(outcomes: list[Outcome], rounds: int, clock: str) -> Lines:
    what = "" if clock == "wall" else " of CPU time, not of time passed,"
    lines = [f"Medians{what} of {rounds} rounds; in brackets the best round.", "",
             "| workload | threads | unit | Beamwright | peers | what the machine gives | times | bar | noise |",
             "|---|---|---|---|---|---|---|---|---|", *map(_row, outcomes), ""]
    failures = {(side, why) for outcome in outcomes for side, why in outcome.failures.items()}
    for side, why in sorted(failures):
        lines += [f"Not measured: {side}: `{why}`", ""]
    notes = dict.fromkeys(outcome.workload.note for outcome in outcomes if outcome.workload.note)
    for note in notes:
        lines += [note, ""]
    return lines


def servers(served: Served, cost: CallCost, overload: list[Overload]) -> Lines:
    lines = ["One word of 8 symbols a call, 12 steps of beam 5 over the GRU-256, five hypotheses back. Server",
             "and load generator share the machine; `beamwright load-test` drives all of them, closed loop.",
             "Peer: bench/peers/decode_server.py. All give the same hypotheses.", "",
             "| server | " + " | ".join(f"{c} in flight: words/s, p50 / p99 ms" for c in CONCURRENCIES) + " |",
             "|---|" + "---|" * len(CONCURRENCIES)]
    for side in served.sides():
        cells = [f"{served.median(side, c, lambda r: r['sources_per_second']):,.0f}, "
                 f"{served.median(side, c, lambda r: r['latency_ms']['p50']):.2f} / "
                 f"{served.median(side, c, lambda r: r['latency_ms']['p99']):.2f}"
                 if (side, c) in served.reports else "-" for c in CONCURRENCIES]
        lines.append(f"| {side} | " + " | ".join(cells) + " |")
    lines += ["", *(f"Not measured: {side}: `{why}`" for side, why in served.failures.items())]
    own = [side for side in served.sides() if side.startswith(OURS)]
    peers = [side for side in served.sides() if not side.startswith(OURS)]
    if not own or not peers:
        return lines + [""]

    def best(sides: list[str], concurrency: int, key: str) -> float:
        if key == "rate":
            return max(served.median(s, concurrency, lambda r: r["sources_per_second"]) for s in sides)
        return min(served.median(s, concurrency, lambda r: r["latency_ms"][key]) for s in sides)

    rows = [(f"words/s, {c} in flight", best(own, c, "rate") / best(peers, c, "rate"), wanted)
            for c, wanted in ((32, 2.5), (128, 2.0))]
    rows.append(("p99 at 32 in flight, the peer's over ours",
                 best(peers, 32, "p99") / best(own, 32, "p99"), 3.0))
    lines += ["", "| bar, best of ours over best of theirs | ratio | |", "|---|---|---|"]
    lines += [f"| {name}: {wanted:g}x | {ratio:.2f} | {yes(ratio >= wanted)} |" for name, ratio, wanted in rows]
    p50 = best(own, 1, "p50")
    lines += [f"| p50 one at a time: at most 0.5 ms | {p50:.2f} ms | {yes(p50 <= 0.5)} |"]
    if triton := [side for side in peers if side.startswith("Triton")]:
        share = p50 / best(triton, 1, "p50")
        lines += [f"| p50 one at a time: at most 0.45 of Triton's | {share:.2f} | {yes(share <= 0.45)} |"]
    return lines + [""] + _call_cost(cost) + _overload(overload)


def _call_cost(cost: CallCost) -> Lines:
    outside = cost.outside_engine
    refused = cost.refusal / cost.echo_at_offered
    called = outside / cost.echo_at_rate
    return ["### What a call costs without decoding", "",
            "CPU time of the server process for a call of one word, one compute thread. Echo: a callback service that answers",
            "at once with as many hypotheses (bench/rpc_echo.cc), with 32 calls in flight, whose messages share wake-ups, and",
            f"called as often as our server: {cost.rate:,.0f} times a second, 32 in flight. Refusals: one word runs and one waits,",
            f"{cost.calls_offered:,.0f} calls a second are offered; the cost of answered calls is subtracted.", "",
            "| | CPU us a call | bar |", "|---|---|---|",
            f"| echo, 32 in flight | {cost.echo:.1f} | |",
            f"| echo, called as often as our server answers | {cost.echo_at_rate:.1f} | |",
            f"| echo, called as often as ours is when it refuses | {cost.echo_at_offered:.1f} | |",
            f"| Beamwright's server | {cost.server:.1f} | |",
            f"| decoding alone | {cost.engine:.1f} ({100 * cost.engine / cost.server:.0f} %) | |",
            f"| RPC, tokenising, validation, reply | {outside:.1f} ({100 * outside / cost.server:.0f} %) | at most 2x the echo "
            f"called as often: {yes(called <= 2)} ({called:.2f}; of the one with 32 in flight {outside / cost.echo:.2f}) |",
            f"| a refusal | {cost.refusal:.1f} | at most 1.5x the echo called as often: {yes(refused <= 1.5)} ({refused:.2f}) |",
            "", f"Idle, all models loaded: {cost.idle:.2f} % of a core (at most 0.5 %: {yes(cost.idle <= 0.5)}).", ""]


def _overload(runs: list[Overload]) -> Lines:
    def middle(value: Callable[[Overload], float]) -> float:
        return statistics.median(map(value, runs))

    share = middle(lambda run: run.goodput / run.peak)
    slower = middle(lambda run: run.p99_accepted / run.p99_at_80)
    refused = middle(lambda run: run.p99_refused)
    return ["### Overload", "",
            f"The same words offered at three times the peak, Poisson arrivals; at most {RUNNING} run and {QUEUE} wait, one",
            "compute thread; server and load generator have a core each. Latency counts from when a call was due. Median of",
            f"{len(runs)} rounds, each with a peak measured anew; in brackets all of them.", "",
            "| | | bar |", "|---|---|---|",
            f"| peak, 64 in flight | {middle(lambda run: run.peak):,.0f} words/s | |",
            f"| goodput at three times the peak | {middle(lambda run: run.goodput):,.0f} words/s | at least 80 %: "
            f"{yes(share >= 0.8)} ({100 * share:.0f} %; "
            f"{_each(runs, lambda run: 100 * run.goodput / run.peak, 0)}) |",
            f"| p99 of accepted words; at 80 % of the peak | {middle(lambda run: run.p99_accepted):.1f} ms; "
            f"{middle(lambda run: run.p99_at_80):.1f} ms | at most 2x: {yes(slower <= 2)} ({slower:.2f}; "
            f"{_each(runs, lambda run: run.p99_accepted / run.p99_at_80, 2)}) |",
            f"| p99 of refusals | {refused:.1f} ms | at most 10 ms: {yes(refused <= 10)} "
            f"({_each(runs, lambda run: run.p99_refused, 1)}) |",
            f"| p99 of what the generator is late | {middle(lambda run: run.p99_lag):.1f} ms | |",
            f"| resident memory before, after | {runs[0].memory_before:.0f} MB, {runs[-1].memory_after:.0f} MB | |", ""]


def _each(runs: list[Overload], value: Callable[[Overload], float], digits: int) -> str:
    return ", ".join(f"{value(run):.{digits}f}" for run in runs)


def mixed_traffic(results: dict[int, Traffic]) -> Lines:
    lines = [f"Sources of 1 to {traffic.LONGEST} tokens, evenly spread, outputs as long as their source; 2 x LSTM-512 with",
             "attention, vocabulary 8,000, beam 4. Poisson arrivals (`beamwright load-test --rate`); latency counts from when a",
             "call was due. Peer: bench/peers/decode_server.py, which sorts waiting sources by length, pads, masks, and removes",
             "finished requests from its batches. *capacity*: 64 requests always in flight. *sustained*: the highest rate of which",
             f"{100 * traffic.KEEPS_UP:.0f} % were answered in time. Short: up to {traffic.SHORT} tokens.", "",
             "| threads | server | capacity, tokens/s | sustained, tokens/s | at 80 % of the peer's capacity: calls/s | "
             "tokens/s | p99 of short ones, ms | p99 of longer ones, ms |", "|---|---|---|---|---|---|---|---|"]
    bars = []
    for threads, run in results.items():
        for side, load in run.at_load.items():
            best = run.best.get(side)
            lines.append(f"| {threads} | {side} | {run.capacity[side]:,.0f} | {best.tokens if best else 0:,.0f} | "
                         f"{load.rate:.1f} | {load.tokens:,.0f} | {load.short_p99_ms:,.0f} | "
                         f"{load.all_p99_ms:,.0f} |")
        if run.failure:
            bars.append(f"| {threads} | failed | `{run.failure}` | |")
        elif OURS in run.best and traffic.PEER in run.best:
            tokens = run.best[OURS].tokens / run.best[traffic.PEER].tokens
            p99 = run.at_load[traffic.PEER].short_p99_ms / run.at_load[OURS].short_p99_ms
            bars += [f"| {threads} | sustained tokens/s: 1.8x | {tokens:.2f} | {yes(tokens >= 1.8)} |",
                     f"| {threads} | p99 of short requests, the peer's over ours: 3x | {p99:.2f} | {yes(p99 >= 3)} |"]
    return lines + ["", "| threads | bar | ratio | |", "|---|---|---|---|", *bars, ""]


def spoken(run: streams.Streamed) -> Lines:
    peer = streams.PEER
    lines = ["Both servers have the same files, one core, and the same clients (bench/stream_load.py, on the other core) over",
             f"sherpa-onnx's WebSocket protocol; sources of 4 seconds, then {streams.TAIL} s of silence; greedy search. The encoder is",
             "icefall's, with random weights (LSTMs: bench/stream_models.py, 40 ms a run). Peer: sherpa-onnx-online-websocket-server",
             f"of sherpa-onnx-bin 2.0.1 with the best of {len(streams.TRIED)} settings for each line. *Pushed*: {streams.FLOOD} sources at once as",
             "fast as they are accepted; seconds of sound a second. *At their pace*: 100 ms of sound every 100 ms; the final result",
             "is counted from the last sample. In brackets all rounds.", "",
             f"| {run.name} | {OURS} | {peer} | times | goal |", "|---|---|---|---|---|"]

    def row(what: str, ours: list[float], theirs: list[float], goal: float, less: bool = False) -> None:
        ratio = statistics.median(ours) / statistics.median(theirs)
        ratio = 1 / ratio if less else ratio
        lines.append(f"| {what} | " + " | ".join(
            f"{statistics.median(side):.1f} ({_each(side, float, 1)})" for side in (ours, theirs)) +
            f" | {ratio:.2f} | {f'{goal:g}x: {yes(ratio >= goal)}' if goal else '-'} |")

    row("pushed: real-time streams a core, by the server's CPU time", run.per_cpu[OURS], run.per_cpu[peer], 2)
    row("the same, by the clock", run.per_wall[OURS], run.per_wall[peer], 0)
    for p, goal in (("p50", 0), ("p99", 2)):
        ours, theirs = ([report["final_ms"][p] for report in run.at_pace[side]] for side in (OURS, peer))
        row(f"{run.live} streams at their pace: {p} of the final result, ms", ours, theirs, goal, less=True)
    late = max(report["lag_ms"]["p99"] for reports in run.at_pace.values() for report in reports)
    return lines + [
        "", f"{run.same_texts[0]} of {run.same_texts[1]} texts are the same. Pieces were sent at most {late:.1f} ms late (p99). The peer's",
        f"settings: pushed `{run.flood_settings}`, at their pace `{run.live_settings}`.", ""]


def crowd(found: streams.Crowd) -> Lines:
    lines = [f"{streams.CROWD} streams at once, each a source of 4 seconds at its pace, which overloads a core; encoder, servers and",
             "clients as under 'Streams of sound'.", "",
             "| server | what became of them | p99 of the refusal, ms |", "|---|---|---|"]
    lines += [f"| {name} | {', '.join(f'{count} {how}' for how, count in ends.items())} | "
              f"{f'{found.refused_ms[name]:.0f}' if name in found.refused_ms else '-'} |" for name, ends in found.ends.items()]
    test = "`build/tests/engine_frames_test --gtest_filter='*"
    return lines + ["", "A refused stream gets RESOURCE_EXHAUSTED with the time of the next try, and close code 1013. Tests of counts:", "", "| what | command |", "|---|---|",
                    f"| stable words are never contradicted: 10,000 streams cut at random | {test}NeverTakenBack'` |",
                    f"| 10,000 idle streams hold less than their price | {test}TenThousandIdleStreams*'` |",
                    "| kill, drain, slow senders and readers, half a sample, an hour of noise, 1,000 connects: others unharmed, "
                    "counts agree | `./dev soak` |", ""]


INTRODUCTION = """# Benchmark results

For people who compare Beamwright with other runtimes and servers. The commands in the sections write this page; do not edit
it. Method, and what bounds each figure: [README.md](README.md).

Peers compute the same graph with the same weights, on as many threads; sides take turns, and medians of rounds are compared.
*search in graph*: beam search as an ONNX Loop around the step, with the keys of the attention outside. *NumPy search*: a step
graph that ends in the choice of each row's best tokens, and the search around it in NumPy. No packaged search of these runtimes
takes recurrent states. *times*: the best peer's time over ours; each bar is followed by the ratio that it is about. *noise*: the
largest spread of a side's rounds, (max - min) / median; a smaller difference means nothing."""


ENDING = "Next: [docs/performance.md](../docs/performance.md)."


def renew(path: Path, sections: dict[str, Lines]) -> None:
    """Replaces these sections of the page, by their keys in HEADINGS, and keeps the others."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = dict(part.split("\n", 1) for part in text.removesuffix(f"\n\n{ENDING}\n").split("\n## ")[1:])
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions().items())
    parts = [f"{INTRODUCTION}\n\nVersions at the last run: {versions}."]
    for key, heading in HEADINGS.items():
        body = "\n".join(sections[key]) if key in sections else kept.get(heading, "")
        if body.strip():
            parts.append(f"## {heading}\n\n{body.strip()}")
    parts.append(ENDING)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
