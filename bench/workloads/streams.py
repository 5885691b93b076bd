"""Streams of sound: our WebSocket listener and sherpa-onnx's online server, the same files, one core each.

The server runs on the first core and the load generator (bench/stream_load.py) on the last; both servers are spoken to
in the same protocol by the same generator. The peer's settings are tried first and the best are kept, for throughput
and for latency apart.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness import ours, serving
from harness.measure import OURS
from harness.serving import LOAD_CORE, SERVER_CORE, Server, pinned

# Of a separate environment (bench/streams_requirements.txt).
BIN = ours.ROOT / "build/venv-streams/bin"
PEER = "sherpa-onnx"
FLOOD = 48   # streams whose sound is pushed as fast as it is taken
CROWD = 400  # streams that begin at once
REFUSING = ("--max-state-bytes", 16 << 20, "--max-queue", 16)  # of the server that refuses
TAIL = 0.66  # seconds of silence behind a source, as our bundles have it

Report = dict[str, object]  # of stream_load.py


@dataclass
class PeerSettings:
    work_threads: int
    batch: int
    loop_ms: int

    def __str__(self) -> str:
        return (f"--num-work-threads={self.work_threads} --max-batch-size={self.batch} "
                f"--loop-interval-ms={self.loop_ms}")


TRIED = [PeerSettings(1, 64, 10), PeerSettings(1, 64, 1), PeerSettings(2, 32, 10)]


@dataclass
class Streamed:
    """What was measured of one model."""
    name: str
    live: int  # streams at their own pace
    flood_settings: PeerSettings | None = None
    live_settings: PeerSettings | None = None
    # By side, a value a round.
    per_cpu: dict[str, list[float]] = field(default_factory=dict)   # seconds of sound a CPU second of the server
    per_wall: dict[str, list[float]] = field(default_factory=dict)  # and a second
    at_pace: dict[str, list[Report]] = field(default_factory=dict)
    same_texts: tuple[int, int] = (0, 0)


@dataclass
class Crowd:
    """400 streams at once: what became of them, by server."""
    ends: dict[str, dict[str, int]] = field(default_factory=dict)
    refused_ms: dict[str, float] = field(default_factory=dict)


@dataclass
class Model:
    folder: str
    what: str
    live: int  # streams at their own pace that both bear
    kind: str = "lstm"  # --model-type of the peer


# By section of the page.
MODELS = {"streams": Model("small", "12 x LSTM-512", 50),
          "streams-full": Model("full", "icefall's default size, 82 million weights", 14),
          "streams-int8": Model("full-int8", "icefall's default size, products in 8 bits", 14),
          "streams-zipformer": Model("zipformer", "icefall's streaming zipformer2, 23 million weights", 12, "zipformer2"),
          "streams-zipformer-int8": Model("zipformer-int8", "the same, products in 8 bits", 12, "zipformer2")}


CROWD_SECTION = "streams-crowd"
SECTIONS = (*MODELS, CROWD_SECTION)


def has_files(section: str, folder: Path) -> bool:
    """icefall and PyTorch are too large to install for a measurement: encoder.onnx, decoder.onnx, joiner.onnx and tokens.txt
    of its zipformer/export-onnx-streaming.py (--chunk-size 16) are put into FOLDER/streams/zipformer, and into
    zipformer-int8 what it quantises."""
    return "zipformer" not in section or (folder / "streams" / MODELS[section].folder / "joiner.onnx").exists()


def models(folder: Path) -> Path:
    """Models, sound and bundles, made once."""
    made = folder / "streams"
    if not (made / "sounds.npz").exists():
        subprocess.run([BIN / "python", ours.ROOT / "bench/stream_models.py", made], check=True)
    for section, model in MODELS.items():
        files = made / model.folder
        if has_files(section, folder) and not (files / "bundle/model.textproto").exists():
            subprocess.run([ours.BIN / "beamwright-graph", "init", files / "encoder.onnx", files / "decoder.onnx",
                            files / "joiner.onnx", "--tokens", files / "tokens.txt", "--out", files / "bundle"],
                           check=True, stdout=subprocess.DEVNULL)
    return made


@contextmanager
def _ours(bundle: Path, *flags: object) -> Iterator[Server]:
    port = serving.free_port()
    command = pinned(SERVER_CORE, ours.BIN / "beamwright-server", "--model-path", bundle, "--grpc-address", "127.0.0.1:0",
                      "--http-address", "none", "--metrics-address", "none", "--admin-address", "none", "--threads", 1,
                      "--websocket-address", f"127.0.0.1:{port}", *flags)
    with serving.running(command, port) as server:
        yield server


@contextmanager
def _peer(files: Path, kind: str, settings: PeerSettings) -> Iterator[Server]:
    port = serving.free_port()
    command = pinned(SERVER_CORE, BIN / "sherpa-onnx-online-websocket-server", f"--port={port}", "--num-io-threads=1",
                      "--num-threads=1", *str(settings).split(), f"--end-tail-padding={TAIL}", "--enable-endpoint=0",
                      f"--model-type={kind}", "--decoding-method=greedy_search", "--log-file=/dev/null",
                      *(f"--{part}={files / part}.onnx" for part in ("encoder", "decoder", "joiner")),
                      f"--tokens={files / 'tokens.txt'}")
    with serving.running(command, port) as server:
        yield server


# Greedy, the whole source in one segment: as the peer is configured.
QUERY = '/?options={"beam_size":1}&endpoint={"silence_ms":0,"pause_ms":0,"max_segment_ms":20000}'


def _load(server: Server, made: Path, kind: str, *flags: object, query: str = "") -> Report:
    done = subprocess.run([str(part) for part in pinned(
        LOAD_CORE, BIN / "python", ours.ROOT / "bench/stream_load.py", server.address + query, made / "sounds.npz", kind,
        *flags)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"stream_load.py: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _warm(server: Server, made: Path, query: str) -> None:
    """Until a source is answered."""
    until = time.monotonic() + 120
    while "answered" not in _load(server, made, "flood", "--streams", 2, "--sources", 4, query=query)["ends"]:
        if time.monotonic() > until:
            raise RuntimeError(f"{server.address} answers no source")
        time.sleep(0.2)


@dataclass
class Side:
    start: Callable[[], object]
    query: str


def _sides(files: Path, kind: str, settings: PeerSettings) -> dict[str, Side]:
    return {OURS: Side(lambda: _ours(files / "bundle"), QUERY), PEER: Side(lambda: _peer(files, kind, settings), "")}


def _flood(side: Side, made: Path, sources: int, *flags: object) -> tuple[float, float, Report]:
    """Seconds of sound a CPU second of the server, a second, and the report."""
    with side.start() as server:
        _warm(server, made, side.query)
        before = sum(server.cpu_seconds().values())
        report = _load(server, made, "flood", "--streams", FLOOD, "--sources", sources, *flags, query=side.query)
        used = sum(server.cpu_seconds().values()) - before
    if set(report["ends"]) != {"answered"}:
        raise RuntimeError(f"of the flood became {report['ends']}")
    return report["sound_seconds"] / used, report["sound_seconds"] / report["seconds"], report


def _live(side: Side, made: Path, streams: int, seconds: float) -> Report:
    with side.start() as server:
        _warm(server, made, side.query)
        return _load(server, made, "live", "--streams", streams, "--seconds", seconds, query=side.query)


def measure(model: Model, folder: Path, rounds: int, seconds: float) -> Streamed:
    made = models(folder)
    files = made / model.folder
    run = Streamed(model.what, model.live)

    def of_peer(settings: PeerSettings) -> Side:
        return _sides(files, model.kind, settings)[PEER]

    run.flood_settings = max(TRIED, key=lambda s: _flood(of_peer(s), made, FLOOD)[0])
    run.live_settings = min(TRIED, key=lambda s: _live(of_peer(s), made, model.live, 2)["final_ms"]["p99"])
    texts: dict[str, list[str]] = {}
    for _ in range(rounds):
        for side, how in _sides(files, model.kind, run.flood_settings).items():
            per_cpu, per_wall, report = _flood(how, made, FLOOD, "--texts")
            run.per_cpu.setdefault(side, []).append(per_cpu)
            run.per_wall.setdefault(side, []).append(per_wall)
            texts[side] = report["texts"]
        for side, how in _sides(files, model.kind, run.live_settings).items():
            run.at_pace.setdefault(side, []).append(_live(how, made, model.live, seconds))
    run.same_texts = (sum(a == b for a, b in zip(*texts.values())), len(texts[OURS]))
    print(run, flush=True)
    return run


def crowd(folder: Path) -> Crowd:
    made = models(folder)
    files = made / MODELS["streams"].folder
    outcome = Crowd()
    for name, start, query in (
            (OURS, lambda: _ours(files / "bundle"), QUERY),
            (f"{OURS}, `{' '.join(map(str, REFUSING))}`", lambda: _ours(files / "bundle", *REFUSING), QUERY),
            (PEER, lambda: _peer(files, "lstm", TRIED[0]), "")):
        with start() as server:
            _warm(server, made, query)
            report = _load(server, made, "crowd", "--streams", CROWD, query=query)
        outcome.ends[name] = report["ends"]
        if report["refused_ms"]:
            outcome.refused_ms[name] = report["refused_ms"]["p99"]
        print(f"crowd, {name}: {report}", flush=True)
    return outcome
