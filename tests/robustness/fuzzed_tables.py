"""Tables with broken bytes through `train`, `predict` and `evaluate`: success or one clear sentence, nothing else.

The tables are real ones, cut to a few rows. Between one and three mutations are drawn for each case from its number, so
that it can be repeated. As a program it runs many cases and counts what happened::

    python tests/robustness/fuzzed_tables.py --cases 1000 --out results/robustness/fuzzed_tables.json
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "cli"))
from command_runs import Done, claims, run

from eastward.datasets import load_embedded

SECONDS = 60
Mutation = Callable[[random.Random, bytes], bytes]

TOKENS = (
    *(b'"', b"'", b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf"),
    *(b"nan", b"NaN", b"inf", b"-inf", b"1e999", b"-1e-999", b"NULL", b"None", b"", b" ", b"\xa0"),
    *(b"=1+1", b"@x", b"<script>", b"1,5", b"1.234,56", b"$ 3", b"(7)", b"5%", b"0x1f", b"1_000"),
    *(
        b"9" * 400,
        b"a" * 70_000,
        b"2023-02-30",
        b"31.12.2023",
        b"true",
        b"\xc3\x28",
        b"\xed\xa0\x80",
    ),
    *("é".encode(), "\u202e".encode(), "\u0000".encode(), "🦜".encode(), b"\\N", b'""', b"#"),
)


def cells(chance: random.Random, text: bytes) -> tuple[list[list[bytes]], int, int]:
    """The table as cells (of a plain file: no quotes are understood), and one place in it."""
    rows = [line.split(b",") for line in text.split(b"\n") if line] or [[b""]]
    row = chance.randrange(len(rows))
    return rows, row, chance.randrange(len(rows[row]))


def joined(rows: list[list[bytes]], separator: bytes = b",", end: bytes = b"\n") -> bytes:
    return end.join(separator.join(row) for row in rows) + end


def flip(chance: random.Random, text: bytes) -> bytes:
    """Some bytes become others."""
    changed = bytearray(text)
    for _ in range(chance.choice([1, 1, 5, 50]) if text else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def cut(chance: random.Random, text: bytes) -> bytes:
    """A piece is missing, perhaps the end."""
    start = chance.randrange(len(text) + 1)
    end = chance.choice([len(text), start + chance.randrange(1, 200)])
    return text[:start] + text[end:]


def twice(chance: random.Random, text: bytes) -> bytes:
    """A piece comes again somewhere else."""
    start, place = chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)
    return text[:place] + text[start : start + chance.randrange(1, 2000)] + text[place:]


def insert(chance: random.Random, text: bytes) -> bytes:
    """Tokens that mean something to somebody, anywhere."""
    for _ in range(chance.choice([1, 3, 20])):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(TOKENS) + text[place:]
    return text


def cell(chance: random.Random, text: bytes) -> bytes:
    """Whole cells are replaced; sometimes all of a column."""
    rows, row, column = cells(chance, text)
    token = chance.choice(TOKENS)
    chosen = rows[1:] if chance.random() < 0.4 else [rows[row]]
    for one in chosen:
        if column < len(one):
            one[column] = token
    return joined(rows)


def numbers(chance: random.Random, text: bytes) -> bytes:
    """A column in another dress: commas, currency, percent, huge, constant, unique."""
    rows, _, column = cells(chance, text)
    dress: Callable[[bytes, int], bytes] = chance.choice(
        [
            lambda cell, _: b'"' + cell.replace(b".", b",") + b'"',
            lambda cell, _: b"EUR " + cell,
            lambda cell, _: cell + b"%",
            lambda cell, _: cell + b"e300",
            lambda _, __: b"7",
            lambda _, row: b"id%d" % row,
            lambda cell, row: cell if row % 2 else b"",
            lambda _, __: b"",
        ]
    )
    for number, row in enumerate(rows[1:]):
        if column < len(row):
            row[column] = dress(row[column], number)
    return joined(rows)


def header(chance: random.Random, text: bytes) -> bytes:
    """Names that are gone, twice there, empty, numbers or very long."""
    rows, _, _ = cells(chance, text)
    column = chance.randrange(len(rows[0]))
    what = chance.randrange(5)
    if what == 0:
        return joined(rows[1:])
    if what == 1:
        return joined([rows[0], *rows])
    rows[0][column] = [rows[0][0], b"", b"0" * chance.choice([1, 5000])][what - 2]
    return joined(rows)


def lines(chance: random.Random, text: bytes) -> bytes:
    """Lines out of order, some gone, some again, some ragged."""
    rows, row, _ = cells(chance, text)
    body = rows[1:]
    what = chance.randrange(5)
    if what == 0:
        body.sort()
    elif what == 1:
        body = body[: chance.choice([0, 1, 2, 3, 10])]
    elif what == 2:
        body = body * 3
    elif what == 3:
        rows[row] = rows[row] * 2
    else:
        rows[row] = rows[row][:1]
    return joined([rows[0], *body])


def dialect(chance: random.Random, text: bytes) -> bytes:
    """Another separator, line end or encoding."""
    rows, _, _ = cells(chance, text)
    separator = chance.choice([b",", b";", b"\t", b"|", b"::", b" "])
    text = joined(rows, separator, chance.choice([b"\n", b"\r\n", b"\r", b"\n\n"]))
    encoding = chance.choice(["utf-8", "utf-16", "utf-8-sig", "latin-1", "utf-32", "cp037"])
    return text.decode("utf-8", "replace").encode(encoding, "replace")


MUTATIONS: tuple[Mutation, ...] = (
    *(flip, cut, twice, insert, cell, cell, numbers, numbers, header, lines, lines, dialect),
)


def tables() -> list[tuple[bytes, str]]:
    """Real tables as CSV, each with its target."""
    real = [load_embedded(name) for name in ("diabetes_progression", "wine")]
    mixed = claims(90).drop(columns="claim")
    rows = [(frame.sample(60, random_state=0), target) for frame, target in real]
    return [
        (frame.to_csv(index=False).encode(), target) for frame, target in [*rows, (mixed, "fraud")]
    ]


@dataclass
class Fuzzer:
    """Runs commands on broken tables in a folder, and counts how they end."""

    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tables = tables()
        for number, (text, target) in enumerate(self.tables):
            (self.folder / f"good{number}.csv").write_bytes(text)
            done = self._train(self.folder / f"good{number}.csv", target, f"model{number}")
            if done.code:
                raise RuntimeError(done.err)

    def case(self, number: int) -> None:
        """One broken table: judged and predicted by a good model, trained on, and its model used on good rows."""
        chance = random.Random(number)
        which = chance.randrange(len(self.tables))
        text, target = self.tables[which]
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            text = chance.choice(MUTATIONS)(chance, text)
        broken = self.folder / f"broken{chance.choice(['.csv', '.csv', '.csv', '.tsv', '.txt'])}"
        broken.write_bytes(text)
        good, model = self.folder / f"good{which}.csv", self.folder / f"model{which}"
        out = self.folder / "out.csv"
        self._judge(number, "predict", lambda: run("predict", model, broken, "-o", out))
        self._judge(number, "evaluate", lambda: run("evaluate", model, broken, "--bootstrap", 20))
        if self._judge(number, "train", lambda: self._train(broken, target, "own")):
            own = self.folder / "own"
            self._judge(number, "predict", lambda: run("predict", own, good, "-o", out))

    def _train(self, data: Path, target: str, out: str) -> Done:
        words = ("train", data, "-t", target, "-o", self.folder / out, "--overwrite", "--quiet")
        return run(*words, "--method", "logistic_regression", "--drop-rare-classes")

    def _judge(self, number: int, command: str, call: Callable[[], Done]) -> bool:
        """Count how a command ends, and say whether it worked."""
        try:
            with at_most(SECONDS):
                done = call()
        except TimeoutError:
            done = Done(-1, "", "no end")
        error = done.err[done.err.find("error: ") :]
        clear = done.code == 2 and error.startswith("error: ") and "Traceback" not in error
        if done.code and not clear:
            self.wrong.append(f"case {number}, {command}: exit code {done.code}: {done.err[-300:]}")
        self.counts[
            f"{command}: {'works' if not done.code else 'refused' if clear else 'wrong'}"
        ] += 1
        return not done.code


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError inside if it takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    known = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(Path(folder), Counter(known.get("counts", {})), known.get("wrong", []))
        for number in range(known.get("cases", 0), given.cases):
            fuzzer.case(number)
            document = {"cases": number + 1, "counts": fuzzer.counts, "wrong": fuzzer.wrong}
            if given.out is not None:
                given.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
