"""A system call filter.

The kernel refuses what a program that only computes never needs. It is the second wall behind namespaces and the first
one where there are none. A refused call fails with "operation not permitted"; a program can handle that. A call newer
than this table fails as on a kernel that lacks it. Numbers are those of x86-64 and AArch64 Linux; elsewhere there is no
filter.

Standard library only: this module also runs in the worker, where Palaver is not installed.
"""

from __future__ import annotations

import ctypes
import os
import struct

# name: (x86-64, AArch64); -1 where the machine has no such call
_NUMBERS = {
    # processes, of its own and of others; threads are allowed, see _threads_only
    "fork": (57, -1),
    "vfork": (58, -1),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "get_robust_list": (274, 100),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # networks, and other ways to meet: shared memory, message queues, key rings, locks. A message may name an address
    # or carry descriptors, in memory that a filter cannot read: a pair of sockets works without messages, see _EXPECTED
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "recvmsg": (47, 212),
    "recvmmsg": (299, 243),
    "setsockopt": (54, 208),
    "flock": (73, 32),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # files: what Landlock does not hold back, and memory that no limit of ours counts
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "lchown": (94, -1),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "mknod": (133, -1),
    "mknodat": (259, 33),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "inotify_init": (253, -1),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "io_setup": (206, 0),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # the kernel
    "seccomp": (317, 277),
    "lsm_set_self_attr": (460, 460),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "personality": (135, 92),
    "modify_ldt": (154, -1),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
# what they ask for lies in memory that a filter cannot read; the C library falls back to clone, openat
_MISSING = {"clone3": (435, 435), "openat2": (437, 437)}
_CLONE = (56, 220)
_OPENS = (((2, -1), 1), ((257, 56), 2))  # open, openat: the argument that holds the flags

# allowed only with one of these values in each of these halves of an argument: 2 n is the lower half of argument n
_EXPECTED: tuple[tuple[tuple[int, int], dict[int, tuple[int, ...]]], ...] = (
    # socketpair: AF_UNIX, SOCK_STREAM with SOCK_NONBLOCK, SOCK_CLOEXEC: what asyncio wakes its loop with
    ((53, 199), {0: (1,), 2: (0x1, 0x801, 0x80001, 0x80801)}),
    ((44, 206), {8: (0,), 9: (0,)}),  # sendto: no address
    ((55, 209), {4: (3, 4, 7, 8, 30, 38, 39)}),  # getsockopt: SO_TYPE, ERROR, buffers, ACCEPTCONN, PROTOCOL, DOMAIN
    ((302, 261), {0: (0,)}),  # prlimit: its own
    # fcntl: F_DUPFD, GETFD, SETFD, GETFL, SETFL, F_DUPFD_CLOEXEC, SETPIPE_SZ, GETPIPE_SZ; no locks, leases, owners
    ((72, 25), {2: (0, 1, 2, 3, 4, 1030, 1031, 1032)}),
    # ioctl: TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; no flags of files, no owners
    ((16, 29), {2: (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)}),
    # prctl: PR_GET_DUMPABLE, SET_NAME, GET_NAME, GET_NO_NEW_PRIVS, SET_VMA
    ((157, 167), {0: (3, 15, 16, 39, 0x53564D41)}),
)

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*
_NEWEST = 469
_SECCOMP = (317, 277)
_CLONE_THREAD, _NAME_SPACES = 0x10000, 0x7E020000
_WRITE_ONLY, _READ_WRITE, _TRUNCATE = 1, 2, 0x200
_EPERM, _ENOSYS = 1, 38

# BPF: load a word; jump; jump if equal, at least, or any bit set; return
_LOAD, _JUMP, _EQUAL, _LEAST, _BITS, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW, _NOTIFY, _ERRNO, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; an argument's low word comes first

_PR_SET_SECCOMP, _FILTER = 22, 2
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8


def supported() -> bool:
    """Return whether the system call numbers of this machine are known."""
    return os.uname().machine in _MACHINES


def program() -> bytes:
    """The filter, as an array of `struct sock_filter`."""
    column, arch = _MACHINES[os.uname().machine]
    blocks = {numbers[column]: [_REFUSE] for numbers in _NUMBERS.values()}
    blocks |= {numbers[column]: [_ABSENT] for numbers in _MISSING.values()}
    for numbers, expected in _EXPECTED:
        blocks[numbers[column]] = [*(line for half in expected.items() for line in _one_of(*half)), _PASS]
    blocks |= {numbers[column]: [*_known_mode(2 * index), _PASS] for numbers, index in _OPENS}
    blocks[_CLONE[column]] = [*_threads_only(), _PASS]
    ranges = [(0, blocks.get(0, [_PASS]))]
    for syscall in range(1, _NEWEST + 1):
        if (block := blocks.get(syscall, [_PASS])) != ranges[-1][1]:
            ranges.append((syscall, block))
    ranges.append((_NEWEST + 1, [_ABSENT]))  # on x86-64 also all of its x32 variant
    lines = [_op(_LOAD, _ARCH), _op(_EQUAL, arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    return b"".join([*lines, *_search(ranges)])


def thread_notices() -> bytes:
    """A filter that notifies the holder of its listener of each `clone` that starts a thread."""
    column, arch = _MACHINES[os.uname().machine]
    lines = [_op(_LOAD, _ARCH), _op(_EQUAL, arch, 1, 0), _PASS, _op(_LOAD, _NUMBER)]
    lines += [_op(_EQUAL, _CLONE[column], 1, 0), _PASS, _op(_LOAD, _ARGUMENTS)]
    return b"".join([*lines, _op(_BITS, _CLONE_THREAD, 0, 1), _op(_RETURN, _NOTIFY), _PASS])


class Filter:
    """A filter, prepared once."""

    def __init__(self, lines: bytes) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._held = ctypes.create_string_buffer(lines, len(lines))
        self._described = struct.pack("HxxxxxxP", len(lines) // 8, ctypes.addressof(self._held))

    def install(self) -> None:
        """Filter the calls of this process and of all it starts, from here on.

        It must have given up new privileges.

        Raises:
            OSError: the kernel refuses.
        """
        if self._libc.prctl(_PR_SET_SECCOMP, _FILTER, self._described, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the system call filter was refused")

    def install_with_listener(self) -> int:
        """`install`, with a descriptor for another process.

        That process answers the calls which the filter reports.

        Raises:
            OSError: the kernel refuses; EBUSY where this process already is under such a filter.
        """
        syscall = _SECCOMP[_MACHINES[os.uname().machine][0]]
        listener = int(self._libc.syscall(syscall, _SET_MODE_FILTER, _NEW_LISTENER, self._described))
        if listener < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"the filter that counts threads was refused: {os.strerror(code)}")
        return listener


def _op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)


_PASS, _REFUSE, _ABSENT = (_op(_RETURN, action) for action in (_ALLOW, _ERRNO | _EPERM, _ERRNO | _ENOSYS))


def _search(ranges: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """The lines of the range that the number of the call is in, by halves.

    The kernel runs a new filter once for every number there is, so the length of a path counts, for each child.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    half = len(ranges) // 2
    low, high = _search(ranges[:half]), _search(ranges[half:])
    first = ranges[half][0]
    if len(low) < 256:
        return [_op(_LEAST, first, len(low), 0), *low, *high]
    return [_op(_LEAST, first, 0, 1), _op(_JUMP, len(low)), *low, *high]


def _one_of(half: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse, unless this half of an argument has one of the values."""
    tests = [_op(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    return [_op(_LOAD, _ARGUMENTS + 4 * half), *tests, _REFUSE]


def _threads_only() -> list[bytes]:
    """Refuse a clone that is a process, or has a name space of its own."""
    return [
        _op(_LOAD, _ARGUMENTS),
        _op(_BITS, _NAME_SPACES, 1, 0),
        _op(_BITS, _CLONE_THREAD, 1, 0),
        _REFUSE,
    ]


def _known_mode(half: int) -> list[bytes]:
    """Refuse two ways of opening a file.

    They are the undocumented mode 3, and truncation of a file that is opened for reading. Before Linux 6.2 Landlock
    does not control either: mode 3 needs none of its rights and, with O_TRUNC, empties any file that belongs to the
    user.
    """
    return [
        _op(_LOAD, _ARGUMENTS + 4 * half),
        _op(_BITS, _WRITE_ONLY, 0, 1),
        _op(_BITS, _READ_WRITE, 2, 3),
        _op(_BITS, _READ_WRITE, 2, 0),
        _op(_BITS, _TRUNCATE, 0, 1),
        _REFUSE,
    ]
