"""Signals as they are sent, beside other work of an asyncio program. `interesting` is baked into the bytecode."""

import asyncio
import signal

from pyebpf import BPF, Struct, char, comm, field, tid, u32


class Sent(Struct):
    """A signal on its way."""

    number: u32
    sender: u32
    receiver: u32
    name: str = field(char[16])


def watch(interesting: signal.Signals) -> BPF:
    """The program for one signal: an ordinary Python value."""
    bpf = BPF()
    sent = bpf.ringbuf(Sent, name="sent")

    @bpf.tracepoint("signal:signal_generate")
    def on_signal(sig: int, pid: int) -> None:  # fields of the tracepoint, by their names
        if sig == interesting:
            sent.emit(Sent(number=sig, sender=tid(), receiver=pid, name=comm()))

    return bpf


async def main() -> None:
    """Print each as it comes."""
    with watch(signal.SIGUSR1) as bpf:
        print("watching", flush=True)
        async for event in bpf["sent"]:
            print(f"{event.name}[{event.sender}] sent {event.number} to {event.receiver}", flush=True)


asyncio.run(main())
