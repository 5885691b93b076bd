"""What the portable programs bring along, as the linker says it: from which archives it took anything, and from which
Debian source package, of which version, each archive is."""

import functools
import pathlib
import re
import shutil

import common

# Libraries that are headers alone, so no linker sees them; they come from the packages that ./dev installs.
HEADERS = ("libcli11-dev", "libcpp-httplib-dev", "libabsl-dev", "rapidjson-dev", "libeigen3-dev")
# Of deploy/portable/libraries.sh: archives and the packages whose sources they are made of.
MADE_HERE = {"fmt": "libfmt-dev", "spdlog": "libspdlog-dev", "prometheus-cpp-core": "libprometheus-cpp-core1.0",
             "cpp-httplib": "libcpp-httplib-dev", "sentencepiece": "libsentencepiece0", "microhttpd": "libmicrohttpd12",
             "onnx_proto": "libonnx-dev", "zip": "libzip4"}  # fmt: skip


def archives():
    """The paths of archives that anything was taken from, of all programs."""
    found = {f"{common.LIBRARIES}/lib/libsentencepiece.a"}
    for name in common.PROGRAMS:
        text = (common.PORTABLE / "bin" / f"{name}.map").read_text(errors="replace")
        found |= set(re.findall(r"^(/\S+\.a)\(", text, re.MULTILINE))
    return sorted(str(pathlib.Path(path).resolve()) for path in found)


def package_of(archive):
    """The Debian package that an archive is of."""
    path = pathlib.Path(archive)
    if path.is_relative_to(common.LIBRARIES):
        return MADE_HERE[path.stem.removeprefix("lib")]
    return common.output("dpkg", "--search", path).split(":")[0]


@functools.cache
def components():
    """{source package: {"version", "packages", "archives"}} of all that is inside."""
    found = {}
    by_package = {package: [] for package in HEADERS}
    for archive in archives():
        by_package.setdefault(package_of(archive), []).append(pathlib.Path(archive).name)
    for package, names in sorted(by_package.items()):
        source, version = common.output("dpkg-query", "--show", "--showformat",
                                        "${source:Package} ${source:Version}\n", package).splitlines()[0].split()
        entry = found.setdefault(source, {"version": version, "packages": [], "archives": []})
        entry["packages"].append(package)
        entry["archives"] += names
    return found


def write_licences(folder):
    """Debian's copyright file of each component, as folder/NAME.txt."""
    folder.mkdir(parents=True)
    for source, entry in components().items():
        shutil.copyfile(f"/usr/share/doc/{entry['packages'][0]}/copyright", folder / f"{source}.txt")


def table():
    """The components as lines for people."""
    return "".join(f"{source} {entry['version']}\n" for source, entry in sorted(components().items()))
