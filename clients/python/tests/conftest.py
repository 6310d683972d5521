"""A database and a server for each test that asks for them: real ones, of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

import psycopg
import pytest

POSTGRES = os.environ["CONSIGN_TEST_POSTGRES_URL"]
BINARY = os.environ["CONSIGN_TEST_BINARY"]
DEADLINE_SECONDS = 30.0


def eventually(what: str, condition: Callable[[], Any]) -> Any:
    """Waits until the condition holds and returns its value."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < ends, f"{what} did not happen"
        time.sleep(0.02)


def environment() -> dict[str, str]:
    """Without what the binary would read."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONSIGN_")}


def consign(url: str, *arguments: str) -> str:
    command = [BINARY, "--database", url, *arguments]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    """A migrated database to copy."""
    name = f"consign_python_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        consign(POSTGRES.rsplit("/", 1)[0] + "/" + name, "migrate")
        yield name
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(template: str) -> Iterator[str]:
    """The address of a database of the test's own."""
    name = f"consign_python_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield POSTGRES.rsplit("/", 1)[0] + "/" + name
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def serve(database: str, folder: Path) -> Iterator[str]:
    """`consign serve` in a folder, which may have a consign.toml; its address."""
    log = folder / "serve.log"
    command = [BINARY, "--database", database, "serve", "--listen", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment(), cwd=folder, stdout=output, stderr=output
        )

    def address() -> Any:
        assert process.poll() is None, log.read_text()
        return re.search(r"listening\s+(http://\S+)", log.read_text())

    try:
        yield eventually("the server listens", address).group(1)
    finally:
        process.terminate()
        process.wait(DEADLINE_SECONDS)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[str]:
    """The address of a server on that database."""
    with serve(database, tmp_path) as address:
        yield address


def start_worker(*arguments: str) -> "subprocess.Popen[str]":
    """tests/worker_program.py as a process."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parent / "src"), str(here)])
    return subprocess.Popen(
        [sys.executable, str(here / "worker_program.py"), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def states(database: str, queue: str = "default") -> dict[str, int]:
    """How many messages of a queue are in which state."""
    with psycopg.connect(database) as db:
        rows = db.execute(
            "SELECT consign.state_of(id), count(*) FROM consign.message WHERE queue = %s GROUP BY 1",
            [queue],
        )
        return {state: count for state, count in rows.fetchall()}
