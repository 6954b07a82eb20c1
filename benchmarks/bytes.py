"""Streams of bytes: lines, rows and compression beside plain loops over the same library calls; sockets beside asyncio's streams."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import zlib
from typing import Any

from benchmarks._rows import Row, pairs, row
from streamactors import Flow, Sink, Source, StreamRefs, Tcp

REPEAT = 5
BLOCK = 65_536
MB = 1e6

TEXT = b"".join(b'{"id": %d, "city": "Oslo", "price": 12.5}\n' % n for n in range(200_000))
TABLE = b"id,city,price\n" + b"".join(b"%d,Oslo,12.5\n" % n for n in range(200_000))
PACKED = gzip.compress(TEXT)


def blocks(data: bytes) -> list[bytes]:
    return [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]


def plain_lines(data: list[bytes]) -> int:
    """The least that a careful reader of blocks does: the rest of a block goes before the next."""
    n, rest = 0, b""
    for block in data:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            line.removesuffix(b"\r").decode()
            n += 1
    return n


def plain_json(data: list[bytes]) -> int:
    n, rest = 0, b""
    for block in data:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            json.loads(line)
            n += 1
    return n


def plain_csv(data: list[bytes]) -> int:
    rows = csv.reader(b"".join(data).decode().splitlines())
    names = next(rows)
    return sum(1 for each in rows if dict(zip(names, each, strict=True)))


def plain_gunzip(data: list[bytes]) -> int:
    decompress = zlib.decompressobj(31).decompress
    return sum(len(decompress(block)) for block in data)


def counted(source: Any) -> int:
    n: int = source.run_with(Sink.count()).result(120)
    return n


# ── sockets: one megabyte after the other to an echo server and back ──────────────────────────────────────────────────

ECHOED = 1_000


async def _echo_and_back() -> int:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(BLOCK):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    block = bytes(BLOCK)

    async def send() -> None:
        for _ in range(ECHOED):
            writer.write(block)
            await writer.drain()
        writer.write_eof()

    sending = asyncio.create_task(send())
    n = 0
    while data := await reader.read(BLOCK):
        n += len(data)
    await sending
    writer.close()
    server.close()
    return n


def echoed() -> int:
    binding = Tcp.bind_and_handle(Flow.identity()).result(10)
    source = Source.repeat(bytes(BLOCK)).take(ECHOED).via(Tcp.outgoing_connection(*binding.address))
    n: int = source.run_with(Sink.fold(0, lambda total, data: total + len(data))).result(120)
    binding.unbind().result(10)
    return n


def through_a_ref(n: int) -> int:
    ref = Source.range(0, n).run_with(StreamRefs.source_ref()).result(10)
    return counted(ref.source())


def in_one_process(n: int) -> int:
    return counted(Source.range(0, n).async_boundary())


def run() -> list[Row]:
    text, table, packed = blocks(TEXT), blocks(TABLE), blocks(PACKED)
    made = []
    for name, ours, peer, size, what in (
        ("lines", lambda: counted(Source.from_iterable(text).lines()), lambda: plain_lines(text), len(TEXT), "split and decode in a loop"),
        ("parse_json_lines", lambda: counted(Source.from_iterable(text).parse_json_lines()), lambda: plain_json(text), len(TEXT), "json.loads in a loop"),
        ("parse_csv", lambda: counted(Source.from_iterable(table).parse_csv()), lambda: plain_csv(table), len(TABLE), "csv.reader over the whole text"),
        ("gunzip", lambda: counted(Source.from_iterable(packed).gunzip()), lambda: plain_gunzip(packed), len(TEXT), "zlib in a loop"),
        ("TCP, echoed", echoed, lambda: asyncio.run(_echo_and_back()), ECHOED * BLOCK, "asyncio streams"),
    ):  # fmt: skip
        mine, theirs, ratios = pairs(ours, peer, REPEAT)
        made.append(row(name, size / MB / mine, "MB per CPU second", f"{what}: {size / MB / theirs:.0f}", ratios, ""))
    n = 200_000
    mine, theirs, ratios = pairs(lambda: through_a_ref(n), lambda: in_one_process(n), REPEAT)
    made.append(
        row("StreamRef, integers", n / mine, "elements per CPU second of both ends", f"an async boundary: {n / theirs:.0f}", ratios, "")
    )  # fmt: skip
    return made
