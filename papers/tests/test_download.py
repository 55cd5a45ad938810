"""Downloads go on where they ended, and only files with the right digest are kept."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from papers import data
from papers.data.download import RemoteFile, fetch

CONTENT = bytes(range(256)) * 4096


class Server(ThreadingHTTPServer):
    """Serves CONTENT; may break off early, and may not know ranges."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str | None] = []
        self.break_after: int | None = None
        self.knows_ranges = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.requests.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if not self.server.knows_ranges:
            start = 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = len(CONTENT) if self.server.break_after is None else self.server.break_after
        self.wfile.write(CONTENT[start:end])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def remote(server: Server, content: bytes = CONTENT) -> RemoteFile:
    return RemoteFile(server.url, "set/file.bin", f"sha256:{hashlib.sha256(content).hexdigest()}")


def test_a_file_arrives_whole_and_progress_ends_at_its_size(server, tmp_path):
    seen = []
    path = fetch(remote(server), tmp_path, lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert not list(tmp_path.rglob("*.part"))


def test_a_broken_download_goes_on_where_it_ended(server, tmp_path):
    server.break_after = 300_000
    with pytest.raises(ConnectionError, match="the same command goes on"):
        fetch(remote(server), tmp_path)
    kept = (tmp_path / "set" / "file.bin.part").stat().st_size
    assert 0 < kept <= 300_000
    server.break_after = None
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.requests == [None, f"bytes={kept}-"]


@pytest.mark.parametrize("have", [1000, len(CONTENT), len(CONTENT) + 5])
def test_what_is_there_is_used_or_replaced_whatever_the_server_knows(server, tmp_path, have):
    server.knows_ranges = have != 1000
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file.bin.part").write_bytes((CONTENT + b"extra")[:have])
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


def test_a_file_with_another_digest_is_removed_and_reported(server, tmp_path):
    with pytest.raises(ValueError, match=r"sha256 of http.* must be the published .*; got"):
        fetch(remote(server, b"something else"), tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_finished_file_is_not_fetched_again(server, tmp_path):
    fetch(remote(server), tmp_path)
    fetch(remote(server), tmp_path)
    assert len(server.requests) == 1


def test_an_unreachable_server_says_what_to_do_by_hand(server, tmp_path):
    gone = RemoteFile("http://127.0.0.1:9/file.bin", "set/file.bin", None)
    with pytest.raises(ConnectionError, match=r"Without a network, get the file from"):
        fetch(gone, tmp_path)


def test_other_kinds_of_addresses_are_refused(tmp_path):
    with pytest.raises(ValueError, match="url of fetch must be an address that starts with http"):
        fetch(RemoteFile("file:///etc/hostname", "x", None), tmp_path)


def test_sets_behind_a_login_say_so_instead_of_downloading(tmp_path):
    with pytest.raises(FileNotFoundError, match="Kaggle asks for a login"):
        data.download("credit_card", tmp_path)


def test_every_source_has_digests_or_says_how_it_is_checked():
    for name, source in data.SOURCES.items():
        assert name in data.PUBLISHED
        for file in source.files:
            if file.digest is not None:
                algorithm, _, value = file.digest.partition(":")
                assert len(value) == {"md5": 32, "sha256": 64}[algorithm]
