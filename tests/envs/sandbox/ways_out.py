"""A program whose function tries one way to reach a process outside of the sandbox, or to change something there.

It is read as text and scored. Standard library only.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import resource
import socket

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.syscall.argtypes = None
DATAGRAM, STREAM, PACKETS = socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET
ASYNC = 0o20000


def must(result):
    """The result of a C function, which is negative where it failed."""
    if result is None or result < 0 or result == (1 << 64) - 1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def pair(kind):
    return socket.socketpair(socket.AF_UNIX, kind)[0]


def descriptor():
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]


def send_many(end, address, mark):
    """`sendmmsg` with one message that has an address."""
    name = (1).to_bytes(2, "little") + address
    text, to = ctypes.create_string_buffer(mark, len(mark)), ctypes.create_string_buffer(name, len(name))
    part = (ctypes.c_size_t * 2)(ctypes.addressof(text), len(mark))
    message = (ctypes.c_size_t * 8)(ctypes.addressof(to), len(name), ctypes.addressof(part), 1, 0, 0, 0, 0)
    must(libc.sendmmsg(end.fileno(), message, 1, 0))


def connected(family, kind, address):
    end = socket.socket(family, kind)
    end.settimeout(1)
    end.connect(address)
    return end


def reconnected(kind, address):
    end = pair(kind)
    end.connect(address)
    return end


def signalled(place, number):
    """A descriptor that sends the target a signal when something can be read."""
    reader, writer = os.pipe()
    fcntl.fcntl(reader, 10, number)  # F_SETSIG
    fcntl.fcntl(reader, fcntl.F_SETOWN, place["pid"])
    fcntl.fcntl(reader, fcntl.F_SETFL, ASYNC)
    os.write(writer, b"x")
    fcntl.fcntl(reader, fcntl.F_SETFL, 0)  # or closing the pipe sends it again


def queue_signal(place, number):
    info = (ctypes.c_int * 32)(number, 0, -1, 0, os.getpid(), os.getuid())
    must(libc.syscall(place["queue_signal"], place["pid"], number, info))


def write_memory(place, mark):
    text = ctypes.create_string_buffer(mark)
    ours = (ctypes.c_size_t * 2)(ctypes.addressof(text), len(text))
    theirs = (ctypes.c_size_t * 2)(place["memory"], len(text))
    must(libc.process_vm_writev(place["pid"], ours, 1, theirs, 1, 0))


def write_through_proc(place, mark):
    with open(f"/proc/{place['pid']}/mem", "r+b", buffering=0) as memory:
        memory.seek(place["memory"] + 32)
        memory.write(mark + b"\0")


def open_and_write(path, mark, flags=0):
    file = os.open(path, os.O_WRONLY | flags)
    os.write(file, mark)


def message_queue(place, mark):
    queue = must(libc.mq_open(place["mq"].encode(), os.O_WRONLY))
    must(libc.mq_send(queue, mark, len(mark), 0))


def sysv_queue(place, mark):
    queue = must(libc.msgget(place["key"], 0))
    must(libc.msgsnd(queue, (1).to_bytes(8, "little") + mark, len(mark), 0))


def sysv_memory(place, mark):
    memory = must(libc.shmat(must(libc.shmget(place["key"], 0, 0)), None, 0))
    ctypes.memmove(memory, mark, len(mark))


def sysv_semaphore(place, mark):
    must(libc.semctl(must(libc.semget(place["key"], 1, 0)), 0, 16, 7))  # SETVAL


UNIX = socket.AF_UNIX
WAYS = {
    "datagram pair, sendto a path": lambda p, m: pair(DATAGRAM).sendto(m, p["datagram"]),
    "datagram pair, sendto an abstract name": lambda p, m: pair(DATAGRAM).sendto(m, p["abstract datagram"]),
    "datagram pair, sendmsg to a path": lambda p, m: pair(DATAGRAM).sendmsg([m], [], 0, p["datagram"]),
    "datagram pair, sendmsg to an abstract name": lambda p, m: pair(DATAGRAM).sendmsg(
        [m], [], 0, p["abstract datagram"]
    ),
    "datagram pair, sendmmsg to a path": lambda p, m: send_many(pair(DATAGRAM), p["datagram"].encode(), m),
    "datagram pair, sendmmsg to an abstract name": lambda p, m: send_many(
        pair(DATAGRAM), p["abstract datagram"].encode(), m
    ),
    "datagram pair, a descriptor to a path": lambda p, m: pair(DATAGRAM).sendmsg([m], descriptor(), 0, p["datagram"]),
    "datagram pair, a descriptor to an abstract name": lambda p, m: pair(DATAGRAM).sendmsg(
        [m], descriptor(), 0, p["abstract datagram"]
    ),
    "datagram pair, connected to a path": lambda p, m: reconnected(DATAGRAM, p["datagram"]).send(m),
    "datagram pair, connected to an abstract name": lambda p, m: reconnected(DATAGRAM, p["abstract datagram"]).send(m),
    "datagram socket to a path": lambda p, m: socket.socket(UNIX, DATAGRAM).sendto(m, p["datagram"]),
    "datagram socket to an abstract name": lambda p, m: socket.socket(UNIX, DATAGRAM).sendto(m, p["abstract datagram"]),
    "stream socket to a path": lambda p, m: connected(UNIX, STREAM, p["stream"]).send(m),
    "stream socket to an abstract name": lambda p, m: connected(UNIX, STREAM, p["abstract stream"]).send(m),
    "stream socket, a descriptor to a path": lambda p, m: connected(UNIX, STREAM, p["stream"]).sendmsg(
        [m], descriptor()
    ),
    "stream socket, a descriptor to an abstract name": lambda p, m: connected(
        UNIX, STREAM, p["abstract stream"]
    ).sendmsg([m], descriptor()),
    "packets to a path": lambda p, m: connected(UNIX, PACKETS, p["packets"]).send(m),
    "TCP": lambda p, m: connected(socket.AF_INET, STREAM, ("127.0.0.1", p["tcp"])).send(m),
    "UDP": lambda p, m: socket.socket(socket.AF_INET, DATAGRAM).sendto(m, ("127.0.0.1", p["udp"])),
    "a pipe with a name": lambda p, m: open_and_write(p["fifo"], m, os.O_NONBLOCK),
    "a file": lambda p, m: open_and_write(p["file"], m),
    "a new file": lambda p, m: open_and_write(p["folder"] + "/new", m, os.O_CREAT),
    "a POSIX message queue": message_queue,
    "a System V message queue": sysv_queue,
    "System V shared memory": sysv_memory,
    "a System V semaphore": sysv_semaphore,
    "a descriptor of another process": lambda p, m: open_and_write(f"/proc/{p['pid']}/fd/{p['pipe']}", m),
    "the memory of another process": write_memory,
    "the memory of another process, by /proc": write_through_proc,
    "kill": lambda p, m: os.kill(p["pid"], p["signals"]),
    "tgkill": lambda p, m: must(libc.syscall(p["tgkill"], p["pid"], p["pid"], p["signals"] + 1)),
    "pidfd_send_signal": lambda p, m: must(
        libc.syscall(424, must(libc.syscall(434, p["pid"], 0)), p["signals"] + 2, None, 0)
    ),
    "rt_sigqueueinfo": lambda p, m: queue_signal(p, p["signals"] + 3),
    "a signal by a descriptor's owner": lambda p, m: signalled(p, p["signals"] + 4),
    "the limits of another process": lambda p, m: resource.prlimit(
        p["pid"], resource.RLIMIT_FSIZE, (p["limit"], resource.RLIM_INFINITY)
    ),
    "the priority of another process": lambda p, m: os.setpriority(
        os.PRIO_PROCESS, p["pid"], os.getpriority(os.PRIO_PROCESS, p["pid"]) + 3
    ),
}


def f(way, place):
    """Try it; the mark that arrives names the way."""
    WAYS[way](place, f"<{way}>".encode())
    return "sent"
