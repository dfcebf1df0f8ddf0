"""Several writes by one system call, io_submit(2), which the kernel may merge."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct

#: io_setup, io_destroy, io_getevents, io_submit
AIO_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}


class Aio:
    """Several writes submitted by one call, io_submit(2), which lets the kernel merge them."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.setup, self.destroy, self.getevents, self.submit = AIO_CALLS[platform.machine()]

    def call(self, number: int, *arguments: object) -> int:
        """Make a system call that must succeed."""
        result: int = self.libc.syscall(number, *arguments)
        assert result >= 0, os.strerror(ctypes.get_errno())
        return result

    def write(self, count: int, size: int = 4096, *, falling: bool = False) -> None:
        """Write `count` neighbouring blocks, the last one first if they are `falling`."""
        context = ctypes.c_ulong(0)
        self.call(self.setup, 64, ctypes.byref(context))
        with mmap.mmap(-1, count * size) as memory:
            view = ctypes.c_char.from_buffer(memory)
            # struct iocb: data, key, rw_flags, opcode (1: PWRITE), priority, descriptor, buffer, bytes, offset, …
            blocks = [
                ctypes.create_string_buffer(
                    struct.pack(
                        "=QIIHhIQQqQII",
                        i,
                        0,
                        0,
                        1,
                        0,
                        self.device,
                        ctypes.addressof(view) + i * size,
                        size,
                        i * size,
                        0,
                        0,
                        0,
                    )
                )
                for i in (reversed(range(count)) if falling else range(count))
            ]
            pointers = (ctypes.c_void_p * count)(*map(ctypes.addressof, blocks))
            assert self.call(self.submit, context, ctypes.c_long(count), pointers) == count
            events = ctypes.create_string_buffer(32 * count)
            done = 0
            while done < count:
                done += self.call(self.getevents, context, ctypes.c_long(1), ctypes.c_long(count - done), events, None)
            del view
        self.call(self.destroy, context)
