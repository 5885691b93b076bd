#!/usr/bin/env python3
"""Holds the protos against those of earlier releases: what an older client or server sends must still be understood.

Usage: check_protos.py PROTOS, with the Python of an environment that has protobuf and buf. `buf breaking` compares with each
*/protos.binpb in the folder of this file: fields, methods and values that are gone, renumbered or renamed (JSON and text files have
names), and types that changed. What it says must stand in ALLOWED, and the other way round. Then it has to notice each of
some changes made on purpose.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

HERE = pathlib.Path(__file__).resolve().parent
BUF = pathlib.Path(sys.executable).parent / "buf"
CONFIG = json.dumps({"version": "v2", "breaking": {"use": ["PACKAGE", "WIRE_JSON"]}})
# Release -> what was changed all the same, and why no client notices.
ALLOWED = {
    # Renamed: encoders and steps have the same two fields. Names of messages are in generated code alone.
    "0.1": {
        'Field "9" with name "encoder_batching" on message "ModelDescription" changed type from '
        '"beamwright.v1.EncoderBatching" to "beamwright.v1.Batching".',
        'Previously present message "EncoderBatching" was deleted from package "beamwright.v1".',
    },
}
Label = descriptor_pb2.FieldDescriptorProto.Label
Type = descriptor_pb2.FieldDescriptorProto.Type


def breaks(protos, baseline):
    """What buf says against the descriptors, without places."""
    with tempfile.TemporaryDirectory() as folder:
        current = pathlib.Path(folder) / "current.binpb"
        current.write_bytes(protos)
        done = subprocess.run([BUF, "breaking", current, "--against", baseline, "--config", CONFIG, "--error-format", "json"],
                              cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 100):  # 100: it found something
        sys.exit(f"buf ended with {done.returncode}: {done.stderr}")
    return {json.loads(line)["message"] for line in done.stdout.splitlines()}


def current(folder):
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "protos.binpb"
        subprocess.run([HERE / "descriptors.sh", folder, file], check=True)
        return file.read_bytes()


def changed(protos, change):
    """The descriptors with a change made to the file of DecodeService."""
    files = descriptor_pb2.FileDescriptorSet.FromString(protos)
    [file] = (file for file in files.file if file.name == "beamwright/v1/decode.proto")
    change(file)
    return files.SerializeToString()


def of(items, name):
    return next(item for item in items if item.name == name)


def field(file, message="Hypothesis", name="score"):
    return of(of(file.message_type, message).field, name)


def remove(items, name):
    del items[next(place for place, item in enumerate(items) if item.name == name)]


# Changes, each of which breaks a client, and a word of what buf must say.
CHANGES = {
    "a field that is gone": (lambda file: remove(of(file.message_type, "Hypothesis").field, "score"), '"score"'),
    "another number": (lambda file: setattr(field(file), "number", 999), '"score"'),
    "another name": (lambda file: setattr(field(file), "name", "points"), '"points"'),
    "another type": (lambda file: setattr(field(file), "type", Type.TYPE_STRING), "changed type"),
    "one of many": (lambda file: setattr(field(file, "DecodeRequest", "sources"), "label", Label.LABEL_OPTIONAL), "sources"),
    "a method that is gone": (lambda file: remove(file.service[0].method, "Score"), '"Score"'),
    "a stream": (lambda file: setattr(of(file.service[0].method, "Decode"), "server_streaming", True), '"Decode"'),
    "a value that is gone": (lambda file: remove(of(file.enum_type, "StopMode").value, "STOP_MODE_FIRST"), "StopMode"),
    "a value with another number": (lambda file: setattr(of(file.enum_type, "StopMode").value[1], "number", 99), "StopMode"),
}


def main():
    protos = current(pathlib.Path(sys.argv[1]).resolve())
    baselines = sorted(HERE.glob("*/protos.binpb"))
    assert baselines, "there are no releases to compare with"
    faults = []
    for baseline in baselines:
        said, allowed = breaks(protos, baseline), ALLOWED.get(baseline.parent.name, set())
        faults += [f"breaks {baseline.parent.name}: {line}" for line in sorted(said - allowed)]
        faults += [f"is in ALLOWED of {baseline.parent.name}, and is not so: {line}" for line in sorted(allowed - said)]
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder) / "here.binpb"
        here.write_bytes(protos)
        for name, (change, word) in CHANGES.items():
            if not any(word in line for line in breaks(changed(protos, change), here)):
                faults.append(f"{name}: not noticed")
    print("\n".join(faults) or f"no break with {[file.parent.name for file in baselines]}; {len(CHANGES)} made on purpose are noticed")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
