"""Constants that scripts take from C's headers, and that the kernel's BTF has not: they were macros."""

from __future__ import annotations

from pyebpf.uapi import errno_table

_FAMILIES = (
    "UNSPEC UNIX INET AX25 IPX APPLETALK NETROM BRIDGE ATMPVC X25 INET6 ROSE DECnet NETBEUI SECURITY KEY NETLINK"
)
#: The file types of struct dirent, and those of st_mode, which are 4096 times as much.
_FILE_TYPES = {"FIFO": 1, "CHR": 2, "DIR": 4, "BLK": 6, "REG": 8, "LNK": 10, "SOCK": 12}

CONSTANTS: dict[str, int] = {
    name: value for name, value in vars(errno_table).items() if name[0] == "E" and name.isupper()
}
CONSTANTS |= {f"AF_{name}": number for number, name in enumerate(_FAMILIES.split())}
CONSTANTS |= {"AF_LOCAL": 1, "AF_PACKET": 17, "AF_VSOCK": 40, "AF_XDP": 44}
CONSTANTS |= {f"DT_{name}": value for name, value in _FILE_TYPES.items()} | {"DT_UNKNOWN": 0, "DT_WHT": 14}
CONSTANTS |= {f"S_IF{name}": value << 12 for name, value in _FILE_TYPES.items()} | {"S_IFMT": 0o170000}
CONSTANTS |= {
    "TASK_RUNNING": 0,
    "TASK_INTERRUPTIBLE": 1,
    "TASK_UNINTERRUPTIBLE": 2,
    "O_RDONLY": 0,
    "O_WRONLY": 1,
    "O_RDWR": 2,
    "O_CREAT": 0o100,
    "O_EXCL": 0o200,
    "O_TRUNC": 0o1000,
    "O_APPEND": 0o2000,
    "O_NONBLOCK": 0o4000,
    "O_DSYNC": 0o10000,
    "O_SYNC": 0o4010000,
    "IPPROTO_ICMPV6": 58,
    "ICMP_ECHOREPLY": 0,
    "ICMP_ECHO": 8,
    "ICMPV6_ECHO_REQUEST": 128,
    "ICMPV6_ECHO_REPLY": 129,
    "AT_FDCWD": -100,
    "NULL": 0,
}
