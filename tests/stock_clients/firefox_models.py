"""deploy/translation/firefox_models.py and check_translations.py against made-up models that lie as Mozilla lays theirs out, in a folder and behind a
server on loopback; and all directions in one server with memory for two of them.

Usage: firefox_models.py BIN MODEL TOOLS
"""

import concurrent.futures
import functools
import gzip
import hashlib
import http.server
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

import marian_files
from served import check, server

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/translation/firefox_models.py"
DIRECTIONS = ("deen", "ende", "enes", "enfr", "esen", "fren")


def lay_out(root):
    """registry.json and models/prod/DIRECTION/NAME.gz."""
    registry = {}
    for direction in DIRECTIONS:
        folder = root / "models/prod" / direction
        folder.mkdir(parents=True)
        marian_files.write(folder, direction)
        registry[direction] = {}
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            registry[direction][path.name.split(".")[0]] = {
                "name": path.name, "size": len(content), "estimatedCompressedSize": len(content) // 2,
                "expectedSha256Hash": hashlib.sha256(content).hexdigest(), "modelType": "prod"}  # fmt: skip
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
            path.unlink()
        registry[direction]["qualityModel"] = {"name": "../of no use"}
    (root / "registry.json").write_text(json.dumps(registry))
    return registry


def run(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, "--program", pathlib.Path(sys.argv[1]) / "beamwright-graph",
                           *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.splitlines(), done.stderr.strip().splitlines()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def check_faults(root, scratch, registry):
    """Each fault is one line that names the direction and the file; nothing is left of the direction."""
    lex = root / "models/prod/enfr/lex.50.50.enfr.s2t.bin.gz"
    good = lex.read_bytes()
    content = gzip.decompress(good)
    size = registry["enfr"]["lex"]["size"]
    for number, (packed, said) in enumerate((
            (gzip.compress(content[:-1] + bytes([content[-1] ^ 1])), "and the registry says"),
            (gzip.compress(content + b"more"), f"has more than {size} bytes"),
            (gzip.compress(content[:-1]), f"has {size - 1} bytes, and the registry says {size}"),
            (good[:-20], "lex.50.50.enfr.s2t.bin.gz"))):  # fmt: skip
        lex.write_bytes(packed)
        code, lines, errors = run(root, scratch / f"fault{number}", "enfr", "esen")
        check(code == 1 and lines == ["esen: made"], f"{code} {lines} {errors}")
        check(len(errors) == 1 and errors[0].startswith("enfr: models/prod/enfr/lex") and said in errors[0], errors)
        check(not (scratch / f"fault{number}/enfr/1").exists(), "a bundle of a damaged file")
    lex.unlink()
    code, _, errors = run(root, scratch / "missing", "enfr")
    check(code == 1 and "lex.50.50.enfr.s2t.bin is not there" in errors[0], errors)
    lex.write_bytes(good)
    code, _, errors = run(root, scratch / "unknown", "xxyy")
    check(code == 1 and "has no xxyy; it has deen" in errors[0], errors)
    code, _, errors = run(scratch, scratch / "unknown")
    check(code == 1 and "has no registry.json" in errors[0], errors)
    evil = json.loads(json.dumps({"enfr": registry["enfr"]}))
    evil["enfr"]["vocab"]["name"] = "../../vocab"
    (scratch / "registry.json").write_text(json.dumps(evil))
    code, _, errors = run(scratch, scratch / "unknown")
    check(code == 1 and "enfr.vocab.name is '../../vocab', which is no file name" in errors[0], errors)


def check_models_json(root, scratch, registry):
    """The newer form of the registry, with a file that is not packed."""
    folder = scratch / "newer"
    path = folder / "models/en-fr/x/model.enfr.intgemm.alphas.bin"
    path.parent.mkdir(parents=True)
    files = {}
    for kind, name in (("model", "model"), ("lexicalShortlist", "lex"), ("vocab", "vocab")):
        entry = registry["enfr"][name]
        to = path.with_name(entry["name"] + (".gz" if name == "vocab" else ""))
        packed = (root / "models/prod/enfr" / (entry["name"] + ".gz")).read_bytes()
        to.write_bytes(packed if name == "vocab" else gzip.decompress(packed))
        files[kind] = {"path": str(path.with_name(entry["name"] + ".gz").relative_to(folder))}
    files["model"] |= {"uncompressedSize": registry["enfr"]["model"]["size"],
                       "uncompressedHash": registry["enfr"]["model"]["expectedSha256Hash"]}  # fmt: skip
    candidates = [{"architecture": "tiny", "releaseStatus": "Nightly", "files": {}},
                  {"architecture": "base", "releaseStatus": "Release", "files": files}]  # fmt: skip
    (folder / "models.json").write_text(json.dumps({"baseUrl": "http://nowhere", "models": {"en-fr": candidates}}))
    code, lines, errors = run(folder, scratch / "of-newer")
    check(code == 0 and lines == ["enfr: made"], f"{lines} {errors}")


def translate(http_address, source, target):
    body = json.dumps({"q": "w4 w6 w9!", "source": source, "target": target}).encode()
    request = urllib.request.Request(f"http://{http_address}/translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["translatedText"]


def check_comparison(http_address, scratch):
    """The command that compares translations with a file of expected ones."""
    sentences = [f"w{2 + i % 30} w{4 + i % 7} w6!" for i in range(40)]
    (scratch / "sentences").write_text("\n".join(sentences) + "\n")

    def compare(lines):
        (scratch / "expected").write_text("\n".join(lines) + "\n")
        done = subprocess.run([sys.executable, SCRIPT.with_name("check_translations.py"), f"http://{http_address}", "en",
                               "fr", scratch / "sentences", scratch / "expected"], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines(), done.stderr.strip()

    code, lines, _ = compare(["x"] * 40)
    check(code == 1 and lines[-1] == "0 of 40 translations are equal", lines)
    found = [line.removeprefix("  is:       ") for line in lines if line.startswith("  is: ")]
    check(compare(found) == (0, ["40 of 40 translations are equal"], ""), "translations differ from themselves")
    code, lines, _ = compare(["x", *found[1:]])
    check(code == 0 and len(lines) == 4 and lines[1] == "  expected: x", lines)  # 39 of 40 are 97 %
    check(compare(found[1:])[0] == 1, "39 translations of 40 sentences")


def over_grpc(grpc, source, target):
    """As translate, by the command line, which calls rpc Translate."""
    done = subprocess.run([pathlib.Path(sys.argv[1]) / "beamwright", "translate", "--server", grpc, "--source", source,
                           "--target", target], input="w4 w6 w9!\n", capture_output=True, text=True, timeout=120)
    return done.stdout.removesuffix("\n") if done.returncode == 0 else done.stderr


def sums(process, name):
    """The sum of a metric over its labels."""
    text = urllib.request.urlopen(f"http://{process.metrics}/metrics", timeout=60).read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))


def add_damaged(made):
    """English to Swedish, which cannot be loaded."""
    folder = made / "ensv/1"
    shutil.copytree(made / "enfr/1", folder)
    config = folder / "model.textproto"
    config.write_text(config.read_text().replace('"fr"', '"sv"').replace('"enfr"', '"ensv"'))
    (folder / "model.bin").write_text("no model")


def check_damaged(http):
    """The model is named and not tried again at once; its neighbours serve, also in the same route."""
    for source in ("en", "es", "en"):
        body = f"q=w4&source={source}&target=sv".encode()
        try:
            urllib.request.urlopen(f"http://{http}/translate", body, timeout=60)
            check(False, "a damaged model translates")
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            check(error.code == 503 and "model 'ensv' version 1 could not be loaded" in text, f"{error.code} {text}")
            check(int(error.headers["Retry-After"]) <= 5, str(error.headers))
    with urllib.request.urlopen(f"http://{http}/v1/models", timeout=60) as answer:
        models = {model["name"]: model for model in json.load(answer)["models"]}
    check(not models["ensv"].get("ready") and "model.bin" in models["ensv"]["reason"], str(models["ensv"]))
    check(models["enfr"]["ready"], str(models["enfr"]))


def check_leaving(http, pairs):
    """Clients that close the connection while a model is loaded for them."""
    host, port = http.split(":")
    for source, target in pairs:
        with socket.create_connection((host, int(port))) as connection:
            body = f"q=w4&source={source}&target={target}".encode()
            connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))  # fmt: skip


def check_on_demand(made, expected):
    """With memory for two models: many clients at once get what a server with all in memory answers."""
    most = max(sum(path.stat().st_size for path in (made / name).rglob("*") if path.is_file()) for name in DIRECTIONS)
    add_damaged(made)
    pairs = list(expected)
    with server("--model-repository", made, "--model-control", "on-demand", "--max-model-bytes",
                str(2 * most + most // 2)) as (grpc, http, process):  # fmt: skip
        check(sums(process, "beamwright_model_in_memory") == 0 and sums(process, "beamwright_ready") == 1, "at the start")

        def ask(client):
            for i in range(len(pairs)):
                pair = pairs[(i * (client + 1) + 3 * client) % len(pairs)]
                found = translate(http, *pair) if (i + client) % 2 else over_grpc(grpc, *pair)
                check(found == expected[pair], f"{pair}: {found!r}, expected {expected[pair]!r}")

        with concurrent.futures.ThreadPoolExecutor() as clients:
            list(clients.map(ask, range(4)))
        check(sums(process, "beamwright_model_evictions_total") >= 4, "few models have left")
        check(sums(process, "beamwright_model_in_memory") <= 2, "more are in memory than the budget allows")
        check_damaged(http)
        check_leaving(http, pairs)
        check(all(translate(http, *pair) == text for pair, text in expected.items()), "after clients left")
        late = concurrent.futures.ThreadPoolExecutor()
        outcomes = [late.submit(outcome, http, pair) for pair in pairs]
    for pair, one in zip(pairs, outcomes):
        check(one.result() in (expected[pair], "refused"), f"in a drain: {one.result()}")


def outcome(http, pair):
    try:
        return translate(http, *pair)
    except OSError:
        return "refused"


def check_serving(made):
    """One server translates between all pairs of the languages."""
    codes = ("de", "en", "es", "fr")
    with server("--model-repository", made) as (_, http_address, _):
        expected = {(source, target): translate(http_address, source, target) for source in codes for target in codes}
        check(len(set(expected.values())) > 8, expected)
        check_comparison(http_address, made.parent)
    check_on_demand(made, expected)


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        root = scratch / "registry"
        registry = lay_out(root)
        code, lines, errors = run(root, scratch / "models")
        check(code == 0 and lines == [f"{name}: made" for name in DIRECTIONS], f"{lines} {errors}")
        check(run(root, scratch / "models", "enfr")[1] == ["enfr: is there"], "what is there is passed over")
        handler = functools.partial(Quiet, directory=root)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as mirror:
            threading.Thread(target=mirror.serve_forever, daemon=True).start()
            code, lines, errors = run(f"http://127.0.0.1:{mirror.server_port}/", scratch / "mirrored", "esen")
            mirror.shutdown()
        check(code == 0 and lines == ["esen: made"], f"{lines} {errors}")
        for path in (scratch / "mirrored/esen/1").iterdir():
            check(path.read_bytes() == (scratch / "models/esen/1" / path.name).read_bytes(), f"{path.name} differs")
        check_faults(root, scratch, registry)
        check_models_json(root, scratch, registry)
        check_serving(scratch / "models")
    print("directions of a registry: good")


if __name__ == "__main__":
    main()
