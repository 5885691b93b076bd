#!/usr/bin/env python3
"""Writes the pages of the repository as a site with a search into build/site, by MkDocs (Debian: mkdocs).

Usage: site.py. README.md is the first page. A link to a file that is no page becomes its path as text; a link to a page that
does not exist fails the build (tests/docs/check_links.py checks headings as well).
"""

import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/site-pages"
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
         "SECURITY.md": "reporting.md", "CODE_OF_CONDUCT.md": "conduct.md"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def place_of(source):
    """Where a page of the repository is in the site; None for other files."""
    if source in PAGES:
        return PAGES[source]
    return source.removeprefix("docs/") if re.fullmatch(r"docs/[^/]+\.md|docs/images/.*", source) else None


def with_links_of_the_site(text, page):
    def link(match):
        image, shown, target = match.groups()
        path, _, heading = target.partition("#")
        if not path or "://" in target:
            return match[0]
        source = (ROOT / page).parent.joinpath(path).resolve().relative_to(ROOT).as_posix()
        place = place_of(source)
        if place is None:
            return shown if shown.strip("`") == source else f"{shown} (`{source}`)"
        return f"{image}[{shown}]({place}{'#' + heading if heading else ''})"

    return LINK.sub(link, text)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "docs").mkdir(parents=True)
    pages = [*PAGES, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
    for page in pages:
        text = with_links_of_the_site((ROOT / page).read_text(encoding="utf-8"), page)
        (WORK / "docs" / place_of(page)).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/images", WORK / "docs/images")
    version = re.search(r"project\(beamwright VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    (WORK / "mkdocs.yml").write_text(f"site_name: Beamwright {version}\nsite_url: ''\ntheme: readthedocs\nplugins: [search]\n",
                                     encoding="utf-8")
    subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--config-file", WORK / "mkdocs.yml", "--site-dir", ROOT / "build/site"],
                   check=True)
    print(f"{len(pages)} pages: build/site/index.html")


if __name__ == "__main__":
    main()
