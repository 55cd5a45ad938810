"""How readable are the pages? One number: hard sentences in a hundred.

    python docs/readability.py [--worst 10] [FOLDER]

A sentence is hard if it has more than 25 words, or more than two figures: readers hold neither in their heads.
The number counts paragraphs and list items of README.md and of the pages that users read. It leaves out code, tables,
headings and formulas, and the maintainers' pages (decisions, changelog), which are a record.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

LONGEST, MOST_FIGURES = 25, 2
MAINTAINERS = {"changelog", "neighbours", "maintaining"}

NOT_PROSE = (
    r"^(`{3,}|~{3,}|:{3,}).*?^\1$",  # code, figures, directives
    r"\$\$.*?\$\$",
    r"^[ ]{4,}\S.*$",  # indented code
    r"^\s*\|.*$",  # tables
    r"^#.*$",
    r"!\[[^\]]*\]\([^)]*\)",  # pictures
    r"<!--.*?-->",
)


def pages(root: Path) -> list[Path]:
    """README.md and the pages under docs that a user reads."""
    found = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "docs/guide").glob("*.md")]
    return sorted(page for page in found if page.stem not in MAINTAINERS)


def prose(text: str) -> str:
    """Keep the sentences alone, with code and formulas as one word each."""
    for pattern in NOT_PROSE:
        text = re.sub(
            pattern,
            "\n",
            text,
            flags=re.DOTALL | re.MULTILINE if ".*?" in pattern else re.MULTILINE,
        )
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\{\w+\}`([^<`]*?)\s*(<[^`]*>)?`", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    return re.sub(r"\$[^$]*\$", "formula", text)


def sentences(text: str) -> list[str]:
    """Split prose into sentences; list items and paragraphs end one, too."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=: )", prose(text))
    flat = (re.sub(r"^\s*(?:[-*:]|\d+\.)\s+", "", " ".join(part.split())) for part in paragraphs)
    parts = (part for one in flat for part in re.split(r"(?<=[.!?])[\"”*)]*\s+(?=[A-Z\"“*(])", one))
    return [part for part in parts if len(part.split()) > 2]


def is_hard(sentence: str) -> bool:
    """Whether a reader has to go back to the beginning."""
    figures = re.findall(r"(?<![\w.-])[+−-]?\d[\d\s ]*(?:[.,]\d+)?", sentence)
    return len(sentence.split()) > LONGEST or len(figures) > MOST_FIGURES


def main() -> None:
    """Print the number, page by page, and the hardest sentences."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument(
        "--worst", type=int, default=0, help="print so many of the longest sentences"
    )
    options = parser.parse_args()
    read = {page: sentences(page.read_text(encoding="utf-8")) for page in pages(options.folder)}
    for page, found in read.items():
        hard = sum(map(is_hard, found))
        print(
            f"{100 * hard / max(1, len(found)):5.0f}  {len(found):4}  {page.relative_to(options.folder)}"
        )
    every = [sentence for found in read.values() for sentence in found]
    words = sum(len(sentence.split()) for sentence in every)
    print(f"{100 * sum(map(is_hard, every)) / len(every):5.1f} hard sentences in a hundred")
    print(f"({len(every)} sentences, {words / len(every):.1f} words each)")
    for sentence in sorted(every, key=lambda one: -len(one.split()))[: options.worst]:
        print(f"\n{len(sentence.split())}: {sentence}")


if __name__ == "__main__":
    main()
