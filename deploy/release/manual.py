"""Manual pages, out of what the programs print as --help."""

import datetime
import gzip
import re

import common


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def section(title, text):
    return f".SH {escaped(title).upper()}\n.nf\n{escaped(text.strip())}\n.fi\n"


def page(program):
    """The page of a program, with a section for each of its commands."""
    text = common.output(program, "--help")
    about, rest = text.split("\n", 1)
    commands = re.findall(r"^  ([a-z][a-z-]*)  ", rest.partition("Subcommands:")[2], re.MULTILINE)
    day = datetime.datetime.fromtimestamp(common.epoch(), datetime.timezone.utc).strftime("%Y-%m-%d")
    made = f'.TH {escaped(program.name).upper()} 1 {day} "Beamwright {common.VERSION}"\n'
    made += f".SH NAME\n{escaped(program.name)} \\- {escaped(about.strip().rstrip('.'))}\n"
    made += section("Usage", rest)
    for command in commands:
        made += section(f"{program.name} {command}", common.output(program, command, "--help"))
    return made


def write(programs, folder):
    """Pages of the programs in one folder as folder/man1/NAME.1.gz."""
    (folder / "man1").mkdir(parents=True)
    for name in common.PROGRAMS:
        packed = gzip.compress(page(programs / name).encode(), 9, mtime=0)
        (folder / "man1" / f"{name}.1.gz").write_bytes(packed)
