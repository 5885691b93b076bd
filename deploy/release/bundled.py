"""What the portable programs and the library bring along, as the linker says it: from which archives it took anything, and
from which Debian source package, of which version, each archive is."""

import functools
import pathlib
import re
import shutil

import common

# Libraries that are headers alone, so no linker sees them; they come from the packages that ./dev installs.
HEADERS = ("libabsl-dev", "rapidjson-dev")
HEADERS_OF_PROGRAMS = ("libboost1.74-dev", "libcli11-dev", "libcpp-httplib-dev")
# Of deploy/portable/libraries.sh: archives and the packages whose sources they are made of.
MADE_HERE = {"fmt": "libfmt-dev", "spdlog": "libspdlog-dev", "prometheus-cpp-core": "libprometheus-cpp-core1.0",
             "cpp-httplib": "libcpp-httplib-dev", "sentencepiece": "libsentencepiece0",
             "icudata": "libicu-dev", "onnx_proto": "libonnx-dev", "zip": "libzip4",
             "png": "libpng-dev", "jpeg": "libjpeg62-turbo-dev", "protobuf": "libprotobuf-dev"}  # fmt: skip


# The linker's maps of what goes into the files of a release.
PROGRAMS = tuple(common.PORTABLE / "bin" / f"{name}.map" for name in common.PROGRAMS)
IMAGE = (common.PORTABLE / "bin" / f"{common.BOTH}.map",)
LIBRARY = (common.PORTABLE / "lib" / f"libbeamwright.so.{common.VERSION}.map",)


def archives(maps):
    """The paths of archives that anything was taken from."""
    found = {f"{common.LIBRARIES}/lib/libsentencepiece.a"}
    for path in maps:
        found |= set(re.findall(r"^(/\S+\.a)\(", path.read_text(errors="replace"), re.MULTILINE))
    return sorted(str(pathlib.Path(path).resolve()) for path in found)


def package_of(archive):
    """The Debian package that an archive is of."""
    path = pathlib.Path(archive)
    if path.is_relative_to(common.LIBRARIES):
        name = path.stem.removeprefix("lib")
        return "libabsl-dev" if name.startswith("absl_") else MADE_HERE[name]
    return common.output("dpkg", "--search", path).split(":")[0]


@functools.cache
def components(maps=PROGRAMS):
    """{source package: {"version", "packages", "archives"}} of all that is inside."""
    found = {}
    by_package = {package: [] for package in HEADERS}
    if maps == LIBRARY:
        by_package["libgomp1"] = ["libgomp.so.1"]  # a separate file in the wheel
    else:
        by_package |= {package: [] for package in HEADERS_OF_PROGRAMS}
    for archive in archives(maps):
        by_package.setdefault(package_of(archive), []).append(pathlib.Path(archive).name)
    for package, names in sorted(by_package.items()):
        source, version = common.output("dpkg-query", "--show", "--showformat",
                                        "${source:Package} ${source:Version}\n", package).splitlines()[0].split()
        entry = found.setdefault(source, {"version": version, "packages": [], "archives": []})
        entry["packages"].append(package)
        entry["archives"] += names
    return found


def write_licences(folder, maps=PROGRAMS):
    """Debian's copyright file of each component, as folder/NAME.txt."""
    folder.mkdir(parents=True)
    for source, entry in components(maps).items():
        shutil.copyfile(f"/usr/share/doc/{entry['packages'][0]}/copyright", folder / f"{source}.txt")


def table(maps=PROGRAMS):
    """The components as lines for people."""
    return "".join(f"{source} {entry['version']}\n" for source, entry in sorted(components(maps).items()))
