#!/usr/bin/env python3
"""Makes a model repository of the translation models of Firefox, from a folder or a mirror that is laid out as theirs.

    firefox_models.py FROM OUT [DIRECTION...]

FROM is a folder, or the http or https address of a mirror, with one of Mozilla's registries in it:
  registry.json   names, sizes and SHA-256 by direction ("enfr"); files at models/TIER/DIRECTION/NAME.gz
  models.json     also as db/models.json: paths, and size and SHA-256 of the model
A file may lie there as NAME.gz, NAME.zst (unpacked by the program zstd) or NAME. Its unpacked size and SHA-256 are compared
with the registry; a direction with a file that differs is not made. OUT/DIRECTION/1 is made by `beamwright-graph init`; a
direction that is there already is passed over. Without DIRECTION: all. Serve OUT by beamwright-server --model-repository.
Exit code 1 if a direction could not be made; the others are made all the same.
"""

import argparse
import dataclasses
import gzip
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

REGISTRIES = ("registry.json", "models.json", "db/models.json")
MOST_REGISTRY_BYTES = 64 << 20
MOST_FILE_BYTES = 1 << 30  # of a file whose size no registry states
PIECE = 1 << 20
# A registry's names of files; the first is the model, the second the shortlist.
KINDS = {"model": "model", "lex": "shortlist", "lexicalShortlist": "shortlist", "vocab": "vocabulary",
         "srcvocab": "source", "srcVocab": "source", "trgvocab": "target", "trgVocab": "target"}  # fmt: skip


class Failure(Exception):
    """What keeps a direction, or all, from being made."""


@dataclasses.dataclass
class File:
    name: str
    paths: list  # where it may lie, without .gz and .zst
    size: int | None
    sha256: str | None


@dataclasses.dataclass
class Direction:
    source: str
    target: str
    files: dict  # by the values of KINDS

    @property
    def name(self):
        return f"{self.source}{self.target}"


class Folder:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def open(self, relative):
        """The file's stream, None if there is no such file."""
        path = self.path / relative
        return path.open("rb") if path.is_file() else None

    def __str__(self):
        return str(self.path)


class Mirror:
    def __init__(self, url, timeout):
        self.url = url.rstrip("/")
        self.timeout = timeout

    def open(self, relative):
        request = urllib.request.Request(f"{self.url}/{urllib.parse.quote(relative)}",
                                         headers={"User-Agent": "beamwright-firefox-models"})
        try:
            return urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (403, 404, 410):  # of a bucket that lists nothing, 403
                return None
            raise Failure(f"{self.url}/{relative}: HTTP status {error.code}") from None
        except (urllib.error.URLError, OSError) as error:
            raise Failure(f"{self.url}/{relative}: {getattr(error, 'reason', error)}") from None

    def __str__(self):
        return self.url


def plain(name, what):
    """A name that stays in its folder."""
    if not isinstance(name, str) or not name or name[0] in ".-" or any(c in '/\\' or ord(c) < 32 for c in name):
        raise Failure(f"{what} is {name!r}, which is no file name")
    return name


def inside(path, what):
    """A path that stays below the registry's folder."""
    if not isinstance(path, str) or path.startswith("/"):
        raise Failure(f"{what} is {path!r}, which is no path below the registry")
    for part in path.split("/"):
        plain(part, what)
    return path


def whole(number, what):
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise Failure(f"{what} is {number!r}, which is no size")
    return number


def languages(key):
    """Source and target of "enfr", "en-fr" or "en-zh_hant"."""
    source, target = key.split("-", 1) if "-" in key else (key[:2], key[2:])
    if not source or not target:
        raise Failure(f"{key!r} names no two languages")
    return plain(source.replace("_", "-"), "a language"), plain(target.replace("_", "-"), "a language")


def from_registry(entries):
    """The directions of registry.json."""
    for key, kinds in entries.items():
        source, target = languages(key)
        files = {}
        for kind, entry in kinds.items():
            if kind not in KINDS:
                continue  # such as qualityModel, which does not translate
            what = f"{key}.{kind}"
            name = plain(entry.get("name"), f"{what}.name")
            tier = plain(entry.get("modelType", "prod"), f"{what}.modelType")
            files[KINDS[kind]] = File(name, [f"models/{tier}/{key}/{name}", f"{key}/{name}", name],
                                      whole(entry.get("size"), f"{what}.size"), entry.get("expectedSha256Hash"))
        yield Direction(source, target, files)


def from_models(entries, architecture):
    """The directions of models.json: of each the first released model, or that of the architecture."""
    for key, candidates in entries.items():
        source, target = languages(key)
        wanted = [one for one in candidates if architecture in (None, one.get("architecture"))]
        if not wanted:
            continue
        released = [one for one in wanted if str(one.get("releaseStatus", "")).startswith("Release")]
        files = {}
        for kind, entry in (released or wanted)[0]["files"].items():
            if kind not in KINDS:
                continue
            what = f"{key}.{kind}"
            path = inside(entry.get("path"), f"{what}.path")
            for suffix in (".gz", ".zst"):
                path = path.removesuffix(suffix)
            files[KINDS[kind]] = File(path.rsplit("/", 1)[-1], [path],
                                      whole(entry.get("uncompressedSize"), f"{what}.uncompressedSize"),
                                      entry.get("uncompressedHash"))
        yield Direction(source, target, files)


def read_directions(origin, architecture):
    for name in REGISTRIES:
        stream = origin.open(name)
        if stream is None:
            continue
        with stream:
            content = stream.read(MOST_REGISTRY_BYTES + 1)
        if len(content) > MOST_REGISTRY_BYTES:
            raise Failure(f"{origin}/{name} has more than {MOST_REGISTRY_BYTES} bytes")
        try:
            registry = json.loads(content)
            if name == "registry.json":
                return list(from_registry(registry))
            return list(from_models(registry["models"], architecture))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Failure(f"{origin}/{name} is not a registry of models: {error!r}") from None
        except Failure as error:
            raise Failure(f"{origin}/{name}: {error}") from None
    raise Failure(f"{origin} has no {' and no '.join(REGISTRIES)}")


def unpacked(stream, path):
    """A stream of the unpacked bytes."""
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=stream)
    if path.endswith(".zst"):
        program = shutil.which("zstd")
        if program is None:
            raise Failure(f"{path}: the program zstd, which unpacks it, is not installed")
        packed = tempfile.TemporaryFile()
        shutil.copyfileobj(stream, packed)
        packed.seek(0)
        return subprocess.Popen([program, "-dc"], stdin=packed, stdout=subprocess.PIPE).stdout
    return stream


def copy(origin, file, to):
    """Writes the file unpacked and checked to the path `to`."""
    for path in (path + suffix for path in file.paths for suffix in (".gz", ".zst", "")):
        stream = origin.open(path)
        if stream is not None:
            break
    else:
        raise Failure(f"{file.name} is not there; looked for {', '.join(file.paths)}, each with .gz, .zst or neither")
    digest, size = hashlib.sha256(), 0
    most = MOST_FILE_BYTES if file.size is None else file.size
    try:
        with stream, unpacked(stream, path) as content, to.open("wb") as out:
            while piece := content.read(PIECE):
                size += len(piece)
                if size > most:
                    raise Failure(f"{path} has more than {most} bytes")
                digest.update(piece)
                out.write(piece)
    except (OSError, EOFError, ValueError) as error:
        raise Failure(f"{path}: {error or type(error).__name__}") from None
    if file.size is not None and size != file.size:
        raise Failure(f"{path} has {size} bytes, and the registry says {file.size}")
    if file.sha256 is not None and digest.hexdigest() != str(file.sha256).lower():
        raise Failure(f"{path} has the SHA-256 {digest.hexdigest()}, and the registry says {file.sha256}")


def make(origin, direction, out, program):
    files = direction.files
    if "model" not in files:
        raise Failure("the registry names no model")
    source = files.get("source") or files.get("vocabulary")
    target = files.get("target") or files.get("vocabulary")
    if source is None or target is None:
        raise Failure("the registry names no vocabulary, or only one of two")
    with tempfile.TemporaryDirectory() as scratch:
        places = {}
        for file in [files["model"], source, target, *([files["shortlist"]] if "shortlist" in files else [])]:
            if id(file) not in places:
                places[id(file)] = pathlib.Path(scratch) / file.name
                copy(origin, file, places[id(file)])
        # init takes an empty folder; one that it leaves unfinished does not become a version.
        made = pathlib.Path(scratch) / "bundle"
        command = [program, "init", places[id(files["model"])], "--source-vocab", places[id(source)],
                   "--target-vocab", places[id(target)], "--from", direction.source, "--to", direction.target,
                   "--name", direction.name, "--out", made]
        if "shortlist" in files:
            command += ["--shortlist", places[id(files["shortlist"])]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            raise Failure(f"{program} init: {lines[-1]}".replace(scratch + "/", ""))
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.parent / ".making"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(made, part)
        part.rename(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("origin", metavar="FROM")
    parser.add_argument("out", metavar="OUT", type=pathlib.Path)
    parser.add_argument("directions", metavar="DIRECTION", nargs="*", help='such as "enfr"')
    parser.add_argument("--architecture", help="of models.json: tiny, base or base-memory; default: the first one released")
    parser.add_argument("--program", default="beamwright-graph", help="default: %(default)s")
    parser.add_argument("--timeout", type=float, default=60, help="seconds without a byte from a mirror; default: %(default)s")
    options = parser.parse_args()
    is_mirror = options.origin.startswith(("http://", "https://"))
    origin = Mirror(options.origin, options.timeout) if is_mirror else Folder(options.origin)
    failed = 0
    try:
        found = {direction.name: direction for direction in read_directions(origin, options.architecture)}
        unknown = [name for name in options.directions if name not in found]
        if unknown:
            raise Failure(f"the registry has no {', '.join(unknown)}; it has {', '.join(sorted(found))}")
        for name in options.directions or sorted(found):
            out = options.out / name / "1"
            if out.exists():
                print(f"{name}: is there")
                continue
            try:
                make(origin, found[name], out, options.program)
                print(f"{name}: made")
            except Failure as error:
                failed += 1
                print(f"{name}: {error}", file=sys.stderr)
    except (Failure, OSError) as error:
        sys.exit(f"firefox_models.py: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
