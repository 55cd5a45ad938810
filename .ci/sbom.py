"""Cut a bill of materials of the whole environment down to what a release needs, and name the release's version.

CycloneDX's tool lists everything that is installed, and takes a package's extras for needed when they happen to be
there: `pytest`, as somebody's extra for tests. Here requirements are followed with their markers, from those of the
release and its extras::

    python .ci/sbom.py dist/eastward.cdx.json
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def release() -> tuple[str, list[Requirement]]:
    """The version of the release, and what it and its extras ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    asked = [Requirement(text) for text in (*project["dependencies"], *extras)]
    source = (ROOT / "src" / "eastward" / "_version.py").read_text(encoding="utf-8")
    [version] = re.findall(r'__version__ = "(.+)"', source)
    return version, [one for one in asked if one.name != project["name"]]


def needs(name: str, extras: frozenset[str]) -> list[Requirement]:
    """What an installed package needs here, with these of its extras."""
    try:
        found = [Requirement(text) for text in requires(name) or ()]
    except PackageNotFoundError:  # asked for on other systems only
        return []
    chosen = [{"extra": extra} for extra in ("", *extras)]
    return [one for one in found if one.marker is None or any(map(one.marker.evaluate, chosen))]


def graph(asked: list[Requirement]) -> dict[str, set[str]]:
    """Every package that is reached, with the packages that it needs."""
    edges: dict[str, set[str]] = {}
    known: dict[str, frozenset[str]] = {}
    waiting = list(asked)
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        extras = known.get(name, frozenset()) | one.extras
        if name in known and extras == known[name]:
            continue
        known[name] = extras
        following = needs(name, extras)
        edges[name] = {canonicalize_name(other.name) for other in following}
        waiting += following
    return edges


def cut(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the release at its root, and nothing that it does not need."""
    version, asked = release()
    edges = graph(asked)
    named = {canonicalize_name(one["name"]): one for one in document["components"]}
    kept = {name: one for name, one in named.items() if name in edges}
    refs = {name: one["bom-ref"] for name, one in kept.items()}
    root = document["metadata"]["component"]
    root["version"] = version
    edges_of_refs = {refs[name]: edges[name] for name in refs}
    edges_of_refs[root["bom-ref"]] = {canonicalize_name(one.name) for one in asked}
    dependencies = [
        {"ref": ref, "dependsOn": sorted(refs[name] for name in names if name in refs)}
        for ref, names in sorted(edges_of_refs.items())
    ]
    return {**document, "components": list(kept.values()), "dependencies": dependencies}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    bill = cut(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(
        f"{path}: {len(bill['components'])} packages of {bill['metadata']['component']['version']}"
    )
