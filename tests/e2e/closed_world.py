"""A world without a way out, in which nothing that a program sends goes unseen.

    unshare --net --mount [--map-root-user] python closed_world.py REPORT PROGRAM WORDS...

Every address leads to the loopback interface of a network namespace, and every name to an address,
by a name server that lies. The program's exit code is ours; what it sent is in the report.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ALL_PROTOCOLS = 0x0003
IPV4 = 0x0800
IPV6 = 0x86DD
TYPE_A = 1
LIE = socket.inet_aton("198.51.100.7")  # of the addresses that documents may use
LISTEN_S = 0.5
"""For packets that are on their way when the program ends."""

ROUTES = (
    "ip link set lo up",
    "ip route add local default dev lo",
    "ip -6 route add local default dev lo",
)


def main(report: Path, command: list[str]) -> int:
    close_the_world()
    sent: dict[str, list[str]] = {"names": [], "packets": []}
    listening = {"packets": (sniff, every_packet()), "names": (lie, name_server())}
    for kind, (listen, ear) in listening.items():
        threading.Thread(target=listen, args=(sent[kind], ear), daemon=True).start()
    code = subprocess.run(command, check=False).returncode
    threading.Event().wait(LISTEN_S)
    report.write_text(json.dumps(sent), encoding="utf-8")
    return code


def closed(report: Path, *command: object) -> list[str]:
    """A command that runs another one in a closed world."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    world = ["unshare", "--net", "--mount", *rights]
    return [*world, sys.executable, *map(str, (Path(__file__), report, *command))]


def why_not() -> str:
    """Why this machine cannot have a closed world; empty if it can."""
    for program in ("unshare", "ip", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    with tempfile.NamedTemporaryFile() as report:
        command = closed(Path(report.name), "true")
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    why = tried.stderr.strip().rpartition("\n")[2]
    return f"no closed world here: {why}" if tried.returncode else ""


def close_the_world() -> None:
    """Route everything to loopback and make this machine the name server."""
    for words in ROUTES:
        if "-6" not in words or Path("/proc/sys/net/ipv6").is_dir():
            subprocess.run(words.split(), check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("nameserver 127.0.0.1\n")
        file.flush()
        subprocess.run(["mount", "--bind", file.name, "/etc/resolv.conf"], check=True)


def every_packet() -> socket.socket:
    return socket.socket(
        socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PROTOCOLS)
    )


def sniff(packets: list[str], interface: socket.socket) -> None:
    """Note every packet, once."""
    while True:
        packet, (_, protocol, kind, *_) = interface.recvfrom(65535)
        if kind != socket.PACKET_OUTGOING:  # loopback shows each coming and going
            packets.append(destination(protocol, packet))


def destination(protocol: int, packet: bytes) -> str:
    """Where a packet goes, for the report."""
    if protocol == IPV4:
        header = (packet[0] & 15) * 4
        where = socket.inet_ntoa(packet[16:20])
        what = packet[9]
        ports = packet[header : header + 4]
    elif protocol == IPV6:
        where = socket.inet_ntop(socket.AF_INET6, packet[24:40])
        what = packet[6]
        ports = packet[40:44]
    else:
        return f"protocol {protocol:#06x}"
    port = (
        struct.unpack(">HH", ports)[1]
        if what in {socket.IPPROTO_TCP, socket.IPPROTO_UDP}
        else 0
    )
    return f"{where} port {port}, protocol {what}"


def name_server() -> socket.socket:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    return server


def lie(names: list[str], server: socket.socket) -> None:
    """Note every name that is looked up; an address of it is the same as of any other."""
    while True:
        query, asker = server.recvfrom(4096)
        labels = []
        at = 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
            at += query[at] + 1
        names.append(".".join(labels))
        question = query[12 : at + 5]
        known = query[at + 1 : at + 3] == struct.pack(">H", TYPE_A)
        answer = (
            b"\xc0\x0c" + struct.pack(">HHIH", TYPE_A, 1, 60, 4) + LIE if known else b""
        )
        head = query[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, int(known), 0, 0)
        server.sendto(head + question + answer, asker)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
