"""The bill of materials of the portable programs, or of the library, as SPDX 2.3."""

import datetime
import hashlib
import json

import bundled
import common

# What upstream declares for the library, by Debian's source package. Files of other licences in a source package (tests,
# documentation, build scripts) are not in the programs. A library without an entry ends the release with KeyError.
LICENCES = {
    "abseil": "Apache-2.0", "boost1.74": "BSL-1.0", "brotli": "MIT", "c-ares": "MIT", "cli11": "BSD-3-Clause", "cpp-httplib": "MIT",
    "fmtlib": "MIT", "gcc-12": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later", "grpc": "Apache-2.0", "icu": "Unicode-DFS-2016",
    "libjpeg-turbo": "IJG AND BSD-3-Clause AND Zlib", "libpng1.6": "libpng-2.0",
    "libzip": "BSD-3-Clause", "onnx": "Apache-2.0", "openssl": "Apache-2.0", "prometheus-cpp": "MIT",
    "protobuf": "BSD-3-Clause", "pugixml": "MIT", "rapidjson": "MIT", "re2": "BSD-3-Clause", "sentencepiece": "Apache-2.0",
    "spdlog": "MIT", "zlib": "Zlib",
}  # fmt: skip


def package(name, version, **more):
    return {"SPDXID": f"SPDXRef-{name.replace('+', 'p').replace('_', '-')}", "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", **more}


def of_component(source, entry):
    return package(
        source, entry["version"], licenseDeclared=LICENCES[source],
        comment="Licences: licences/" + source + ".txt; linked from " + (", ".join(entry["archives"]) or "headers alone"),
        externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                       "referenceLocator": f"pkg:deb/debian/{source}@{entry['version']}?arch=source"}])


def write(path, programs, maps=bundled.PROGRAMS):
    """programs: the files that are described; maps: what the linker says of them."""
    made = datetime.datetime.fromtimestamp(common.epoch(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = package("beamwright", common.VERSION, licenseConcluded="Apache-2.0", licenseDeclared="Apache-2.0",
                  primaryPackagePurpose="APPLICATION", sourceInfo=f"git commit {common.commit()}")
    parts = [of_component(source, entry) for source, entry in sorted(bundled.components(maps).items())]
    files = [{"SPDXID": f"SPDXRef-File-{program.name.replace('_', '-')}", "fileName": f"./{program.name}",
              "checksums": [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), program.read_bytes()).hexdigest()}
                            for name in ("SHA1", "SHA256")],
              "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"} for program in programs]
    digest = hashlib.sha256("".join(map(str, files)).encode()).hexdigest()[:16]  # each document has a unique name
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    relations += [(own["SPDXID"], "STATIC_LINK", part["SPDXID"]) for part in parts]
    relations += [(own["SPDXID"], "CONTAINS", file["SPDXID"]) for file in files]
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"beamwright-{common.VERSION}",
        "documentNamespace": f"https://spdx.org/spdxdocs/beamwright-{common.VERSION}-{common.commit()}-{digest}",
        "creationInfo": {"created": made, "creators": ["Tool: beamwright-release"]},
        "packages": [own, *parts], "files": files,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                          for one, kind, other in relations],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
