"""A worker as a process: prints what its handler gets, and hangs in it where it should.

    worker_program.py sql|http|asyncio ADDRESS ACTION

`deliver` delivers. `hang` prints and then waits for ever. `slow` takes half a second each.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from datetime import timedelta
from typing import Optional

import consign_client as consign
from consign_client.async_worker import AsyncWorker

TRANSPORT, ADDRESS, ACTION = sys.argv[1:]
LEASE = timedelta(seconds=2)


def handle(delivery: consign.Delivery) -> Optional[consign.Outcome]:
    print(delivery.id, delivery.attempt_no, delivery.fence, flush=True)
    if ACTION == "hang":
        threading.Event().wait()
    if ACTION == "slow":
        time.sleep(0.5)
    return None


async def handle_async(delivery: consign.Delivery) -> Optional[consign.Outcome]:
    return await asyncio.get_running_loop().run_in_executor(None, handle, delivery)


async def run_async() -> None:
    import asyncpg

    async with asyncpg.create_pool(ADDRESS, min_size=1, max_size=3) as pool:
        await AsyncWorker(pool, "default", handle_async, lease=LEASE, concurrency=1).run()


def main() -> None:
    if TRANSPORT == "asyncio":
        asyncio.run(run_async())
        return
    source: object
    if TRANSPORT == "http":
        source = consign.HttpClient(ADDRESS)
    else:
        import psycopg

        source = consign.SqlSource(lambda: psycopg.connect(ADDRESS))
    consign.Worker(source, "default", handle, lease=LEASE).run()  # type: ignore[arg-type]


main()
