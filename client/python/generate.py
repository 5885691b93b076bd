#!/usr/bin/env python3
"""Writes the package's generated files.

These are the messages' descriptors and the options of the protos, the version, and the client for threads,
which is the client for asyncio (_aio.py) without what is asynchronous.

    build/venv-python/bin/python client/python/generate.py            # writes the files
    build/venv-python/bin/python client/python/generate.py --check    # compares; 1 if they differ

Needs protoc and the packages `protobuf` (4.22 or newer) and `ruff`, which ./dev test installs there. The
files are kept in the repository, so that building the package, from a checkout or an sdist, needs neither. The
descriptors are the same whatever protoc writes them, and are loaded into a pool of the package's own:
they work with every protobuf from 4.21 on and share no names with other packages in the process.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = HERE / "src" / "beamwright"
PROTOS = [
    "beamwright/v1/decode.proto",
    "beamwright/v1/recognize.proto",
    "beamwright/v1/model.proto",
    "beamwright/v1/source_errors.proto",
    "beamwright/v1/translate.proto",
    "google/rpc/error_details.proto",
    "google/rpc/status.proto",
    "grpc/health/v1/health.proto",
]

Field = descriptor_pb2.FieldDescriptorProto
# Keyword arguments of a client's methods other than the options.
RESERVED = {"self", "prompt", "source", "sources", "targets", "target", "model", "version", "timeout", "soft",
            "provisional", "batch_size", "max_in_flight", "on_error", "progress"}  # fmt: skip
NUMBERS = {
    Field.TYPE_INT32: "int",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_BOOL: "bool",
    Field.TYPE_STRING: "str",
}
MESSAGES = {
    (".beamwright.v1.TargetTokens", False): ("tokens", "TargetLike"),
    (".beamwright.v1.TargetTokens", True): ("token_lists", "Sequence[TargetLike]"),
    (".beamwright.v1.Hotword", True): ("hotwords", "HotwordsLike"),
    (".beamwright.v1.FusionWeight", True): ("fusion", "Mapping[str, float]"),
    (".beamwright.v1.LogitBias", True): ("logit_bias", "Mapping[int | str, float]"),
}
HEADER = '''\
"""The options of calls, made by generate.py from decode.proto: do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from ._rule import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._types import HotwordsLike, TargetLike

'''


def read_protos() -> descriptor_pb2.FileDescriptorSet:
    """All files, those that they import first."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "protos"
        command = [
            "protoc",
            f"-I{ROOT / 'proto'}",
            "--include_imports",
            f"--descriptor_set_out={out}",
        ]
        try:
            subprocess.run([*command, *PROTOS], check=True)
        except FileNotFoundError:
            sys.exit("generate.py: protoc is missing (Debian: protobuf-compiler)")
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


class Rules:
    """The rules of fields (rule.proto), read with the descriptors themselves."""

    def __init__(self, protos: descriptor_pb2.FileDescriptorSet) -> None:
        pool = descriptor_pool.DescriptorPool()
        for file in protos.file:
            pool.AddSerializedFile(file.SerializeToString())
        self._options: Any = message_factory.GetMessageClass(
            pool.FindMessageTypeByName("google.protobuf.FieldOptions")
        )
        message_factory.GetMessageClass(pool.FindMessageTypeByName("beamwright.v1.FieldRule"))
        self._rule: Any = pool.FindExtensionByName("beamwright.v1.rule")

    def of(self, field: descriptor_pb2.FieldDescriptorProto) -> Any:
        options = self._options.FromString(field.options.SerializeToString())
        return options.Extensions[self._rule]


def runtime_descriptors(protos: descriptor_pb2.FileDescriptorSet) -> bytes:
    """What messages are made of; without rules and the files that only they need."""
    needless = {"beamwright/v1/rule.proto", "google/protobuf/descriptor.proto"}
    kept = descriptor_pb2.FileDescriptorSet()
    for file in protos.file:
        if file.name in needless:
            continue
        copy = kept.file.add()
        copy.CopyFrom(file)
        copy.ClearField("options")
        kept_imports = [name for name in copy.dependency if name not in needless]
        copy.ClearField("dependency")
        copy.dependency.extend(kept_imports)
        for message in copy.message_type:
            strip(message)
    return kept.SerializeToString(deterministic=True)


def strip(message: descriptor_pb2.DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("options")
        field.ClearField("json_name")  # protoc of other versions leaves it out
    for nested in message.nested_type:
        strip(nested)


def number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def allowed(rule: Any, is_text: bool) -> str:
    """One sentence of what a value may be, and what holds without one."""
    parts = []
    if rule.HasField("minimum") and rule.HasField("maximum"):
        parts.append(f"{number(rule.minimum)} to {number(rule.maximum)}")
    elif rule.HasField("minimum"):
        parts.append(f"at least {number(rule.minimum)}")
    if rule.unit and not rule.unit.startswith(("target tokens", "a scorer's name")):
        parts[-1:] = [" ".join([*parts[-1:], rule.unit])]
    if rule.max_items:
        parts.append(f"at most {rule.max_items} {'bytes' if is_text else 'of them'}")
    if rule.default_value:
        parts.append(f"default {rule.default_value}")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


class Writer:
    """The source of _options.py."""

    def __init__(self, protos: descriptor_pb2.FileDescriptorSet) -> None:
        self._rules = Rules(protos)
        file = next(f for f in protos.file if f.name == "beamwright/v1/decode.proto")
        self._messages = {message.name: message for message in file.message_type}
        self._enums = {f".beamwright.v1.{enum.name}": enum for enum in file.enum_type}
        self._used_enums: dict[str, str] = {}

    def choices(self, field: descriptor_pb2.FieldDescriptorProto) -> dict[str, int]:
        """Short name -> number, without 'unspecified'."""
        if field.type != Field.TYPE_ENUM:
            return {}
        enum = self._enums[field.type_name]
        prefix = enum.value[0].name.removesuffix("UNSPECIFIED")
        return {
            value.name.removeprefix(prefix).lower().replace("_", "-"): value.number for value in enum.value[1:]
        }

    def kind(self, field: descriptor_pb2.FieldDescriptorProto) -> tuple[str, str]:
        """How a value is converted, and its type."""
        repeated = field.label == Field.LABEL_REPEATED
        if field.type == Field.TYPE_ENUM:
            name = field.type_name.rsplit(".", 1)[1]
            self._used_enums[name] = ", ".join(f'"{choice}"' for choice in self.choices(field))
            return "enum", f"{name}Name"
        if field.type == Field.TYPE_MESSAGE:
            known = MESSAGES.get((field.type_name, repeated))
        elif repeated and field.type == Field.TYPE_STRING:
            known = ("strs", "str | Sequence[str]")
        else:
            known = None if repeated else (NUMBERS[field.type],) * 2
        if known is None:
            sys.exit(f"generate.py: {field.name} is of a kind that generate.py has to learn first")
        return known

    def options(self, message_name: str, class_name: str, doc: str) -> str:
        lines = [f"class {class_name}(TypedDict, total=False):", f'    """{doc}"""', ""]
        table = []
        for field in self._messages[message_name].field:
            if field.name in RESERVED:
                sys.exit(f"generate.py: {field.name} is an argument of the clients' methods")
            rule = self._rules.of(field)
            kind, type_name = self.kind(field)
            choices = self.choices(field)
            text = " ".join([rule.text, allowed(rule, kind == "str")]).strip()
            if kind in {"token_lists", "hotwords", "fusion", "logit_bias", "strs"}:
                text = text.replace(" May be repeated.", "")
            lines.append(f"    {field.name}: {type_name} | None")
            lines.extend(textwrap.indent(quoted(text), "    ").splitlines())
            parts = [f'kind="{kind}"', f'type="{type_name}"', f"text={text!r}"]
            for bound in ("minimum", "maximum"):
                if rule.HasField(bound):
                    parts.append(f"{bound}={number(getattr(rule, bound))}")
            if choices:
                parts.append(f"choices={choices!r}")
            table.append(f'    "{field.name}": Rule({", ".join(parts)}),')
        return "\n".join([*lines, "", "", f"{constant(class_name)} = {{", *table, "}", ""])

    def source(self) -> str:
        decode = self.options(
            "DecodeOptions",
            "DecodeOptions",
            "Options of `decode`, `decode_many` and `stream`; one that is left out or None is the model's.",
        )
        score = self.options(
            "ScoreOptions",
            "ScoreOptions",
            "Options of `score`; one that is left out or None is the model's.",
        )
        enums = [f"{name}Name = Literal[{names}]\n" for name, names in sorted(self._used_enums.items())]
        return HEADER + "\n".join(["", *enums]).replace("\n\n", "\n") + "\n\n" + decode + "\n\n" + score


def constant(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).upper()


def quoted(text: str) -> str:
    """A docstring."""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    lines = textwrap.wrap(text, 94)
    if len(lines) == 1:
        return f'"""{lines[0]}"""'
    return '"""' + "\n".join(lines) + '\n"""'


def version_source() -> str:
    """The version has one place, CMakeLists.txt."""
    lists = (ROOT / "CMakeLists.txt").read_text()
    found = re.search(r"^project\(beamwright VERSION ([0-9.]+)", lists, re.MULTILINE)
    assert found is not None
    said = '"""The version of the package, made by generate.py: do not edit."""'
    return f'{said}\n\n__version__ = "{found[1]}"\n'


# The clients for threads are those for asyncio without what is asynchronous.
OF_ASYNCIO = {"_aio.py": "_client.py", "_aio_in_order.py": "_in_order.py"}
TEXT_OF_THREADS = [
    ("The client for asyncio.", "The client for threads"),
    ("Calls of asyncio, answered in", "Calls, answered in"),
    (
        "A client of a Beamwright server for asyncio.\n\n"
        "    It may be used in one event loop after another, not in several at a time.",
        "A client of a Beamwright server, for any number of threads.",
    ),
    ("an async with\n    statement", "a with statement"),
    ("Any iterable, or asynchronous one;", "Any iterable;"),
    ("An asynchronous iterator", "An iterator"),
    ("as they come, asynchronously or not", "as they come"),
    ("Iterable[SourceLike] | AsyncIterable[SourceLike]", "Iterable[SourceLike]"),
    ("Awaitable[list[Decoded | BeamwrightError]]", "list[Decoded | BeamwrightError]"),
    (", Awaitable, Callable", ", Callable"),
    ("AsyncIterable, AsyncIterator, Callable, Iterable, Mapping", "Callable, Iterable, Iterator, Mapping"),
    ("for answer in answers:\n                    yield answer", "yield from answers"),
    ("(grpc.RpcError, asyncio.CancelledError)", "grpc.RpcError"),
]
NAMES_OF_THREADS = [
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsync(\w+)", r"\1"),
    (r"\bAioConnection\b", "Connection"),
    (r"\b_aio_in_order\b", "_in_order"),
    (r"\basync_requests_of\b", "requests_of"),
    (r"\b_bulk\.aiterate\(", "iter("),
    (r"\basyncio\b", "time"),
    (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\ba(iter|next)\(", r"\1("),
    (r"\.aclose\(", ".close("),
]


def sources_of_threads() -> dict[pathlib.Path, bytes]:
    """The modules for threads, by those for asyncio; a rule that no module needs is an error."""
    texts = {name: (PACKAGE / name).read_text() for name in OF_ASYNCIO}
    rules = [(re.escape(old), new.replace("\\", r"\\")) for old, new in TEXT_OF_THREADS]
    for pattern, replacement in [*rules, *NAMES_OF_THREADS]:
        if not any(re.search(pattern, text) for text in texts.values()):
            raise SystemExit(f"generate.py: no module for asyncio has {pattern}")
        texts = {name: re.sub(pattern, replacement, text) for name, text in texts.items()}
    made = {}
    for name, text in texts.items():
        first, rest = text.split("\n", 1)
        said = f'{first[:-3].rstrip(".")}; made by generate.py from {name}: do not edit."""\n'
        made[PACKAGE / OF_ASYNCIO[name]] = tidied(said + rest)
    return made


def tidied(source: str) -> bytes:
    """The source with its imports sorted, in the package's style."""
    content = source.encode()
    for command in (["check", "--quiet", "--fix-only", "--select", "I"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", HERE / "pyproject.toml", "-"],
            input=content,
            capture_output=True,
            check=True,
        )
        content = done.stdout
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    protos = read_protos()
    files = {
        PACKAGE / "_descriptors.binpb": runtime_descriptors(protos),
        PACKAGE / "_options.py": Writer(protos).source().encode(),
        PACKAGE / "_version.py": version_source().encode(),
        **sources_of_threads(),
    }
    stale = [path for path, content in files.items() if not path.exists() or path.read_bytes() != content]
    if not check:
        for path in stale:
            path.write_bytes(files[path])
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what its sources make; run client/python/generate.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
