"""WiFi scans: a line when one starts, for each channel heard on the way, and when it ends, with its duration.

Follows a scan from the request to the driver until the driver reports its end, with every driver of the kernel's WiFi
stack. A channel has a line when a beacon or a probe response arrives on it, and again if frames of another channel came
in between; beacon_found is the kernel's mark for channels where it may transmit only after it has heard a beacon. The
process is the one that ran when the driver was asked. Scheduled scans, which a card repeats by itself, are left out.

Overhead: one probe for each incoming beacon and probe response, a few for each scan; data is not traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import (
    BPF,
    KernelObject,
    NotFound,
    Struct,
    char,
    comm,
    errno_name,
    field,
    has_field,
    now,
    pid,
    s32,
    u16,
    u32,
    u64,
)
from pyebpf.helpers import get_current_pid_tgid
from pyebpf.tool import Column, EventTool, Example, NoOptions, Record, Stop, dataclass, events

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTED, CHANNEL, COMPLETED, ABORTED, REFUSED = range(5)
EVENTS = ("started", "channel", "completed", "aborted", "refused")
#: enum nl80211_band, include/uapi/linux/nl80211.h
BANDS = ("2GHZ", "5GHZ", "60GHZ", "6GHZ", "S1GHZ", "LC")


class Scan(Struct):
    """A scan under way: when it began, the thread that asks for it until it has an answer, the channel heard last."""

    at: u64
    asking: u64
    frequency: u32
    device: str = field(char[16])


class Reported(Struct):
    """A step of a scan as the kernel's side reports it; what does not belong to its kind is 0."""

    ns: u64
    pid: u32
    kind: u16
    beacon_found: u16
    channels: u32
    band: u32
    frequency: u32
    result: s32
    device: str = field(char[16])
    comm: str = field(char[16])


@dataclass(frozen=True)
class Event(Record):
    """A step of a scan. `event` is one of EVENTS; what does not belong to it is None.

    "started" has the process and the number of channels asked for, "channel" band, frequency in MHz and the kernel's
    mark, the others the nanoseconds since the start, "refused" the driver's error, too.
    """

    device: str
    event: str
    pid: int | None = None
    comm: str | None = None
    channels: int | None = None
    band: str | None = None
    frequency: int | None = None
    beacon_found: int | None = None
    ns: int | None = None
    error: str | None = None


def _check_stack(target: Any) -> None:
    """Raise NotFound with what to do where the kernel's WiFi stack is not there."""
    try:
        target.raw_tracepoint("rdev_scan")
    except NotFound as error:
        raise NotFound(
            "the tracepoints of WiFi are missing. Either cfg80211 is not loaded: load the card's driver with "
            "modprobe. Or the module has no BTF, which modules have since Linux 5.11"
        ) from error


def build(options: NoOptions) -> BPF:  # noqa: ARG001 - as every tool's
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    bpf.before_compiling.append(_check_stack)
    scans = bpf.hash(key=u64, value=Scan, size=256)  # by the address of the card's struct wiphy
    reports = bpf.ringbuf(Reported, name="reports")

    def report(
        kind: int,
        device: str,
        ns: int = 0,
        channels: int = 0,
        band: int = 0,
        frequency: int = 0,
        beacon_found: int = 0,
        result: int = 0,
    ) -> None:
        reports.emit(
            Reported(
                ns=ns,
                pid=pid(),
                kind=kind,
                beacon_found=beacon_found,
                channels=channels,
                band=band,
                frequency=frequency,
                result=result,
                device=device,
                comm=comm(),
            )
        )

    def public(request: KernelObject) -> KernelObject:
        """A struct cfg80211_scan_request, which since Linux 6.17 is a part of what the tracepoints give."""
        return request.req if has_field("struct cfg80211_scan_request_int", "req") else request

    @bpf.raw_tracepoint("rdev_scan")
    def on_request(wiphy: KernelObject, request: KernelObject) -> None:
        request = public(request)
        device = request.wdev.netdev.name
        scans[wiphy] = Scan(at=now(), asking=get_current_pid_tgid(), frequency=0, device=device)
        report(STARTED, device, channels=request.n_channels)

    # What rdev_scan() and all other calls of drivers return.
    @bpf.raw_tracepoint("rdev_return_int")
    def on_answer(wiphy: KernelObject, ret: int) -> None:
        scan = scans.get(wiphy)
        if scan is not None and scan.asking == get_current_pid_tgid():
            scan.asking = 0
            if ret < 0:
                report(REFUSED, scan.device, ns=now() - scan.at, result=ret)
                del scans[wiphy]

    @bpf.raw_tracepoint("cfg80211_inform_bss_frame")
    def on_frame(wiphy: KernelObject, data: KernelObject) -> None:
        scan = scans.get(wiphy)
        if scan is not None:
            channel = data.chan
            if channel.center_freq != scan.frequency:
                scan.frequency = channel.center_freq
                report(
                    CHANNEL,
                    scan.device,
                    band=channel.band,
                    frequency=channel.center_freq,
                    beacon_found=channel.beacon_found,
                )

    @bpf.raw_tracepoint("cfg80211_scan_done")
    def on_end(request: KernelObject, info: KernelObject) -> None:
        wiphy = public(request).wiphy
        scan = scans.get(wiphy)
        if scan is not None:
            report(ABORTED if info.aborted else COMPLETED, scan.device, ns=now() - scan.at)
            del scans[wiphy]

    return bpf


def steps(bpf: BPF, _options: NoOptions, stop: Stop) -> Iterator[Event]:
    """Steps of scans as they happen."""
    for found in events(bpf["reports"], stop):
        name = EVENTS[found.kind]
        if found.kind == STARTED:
            yield Event(found.device, name, found.pid, found.comm, found.channels)
        elif found.kind == CHANNEL:
            band = BANDS[found.band] if found.band < len(BANDS) else str(found.band)
            yield Event(found.device, name, band=band, frequency=found.frequency, beacon_found=found.beacon_found)
        else:
            error = errno_name(-found.result) if found.result else None
            yield Event(found.device, name, ns=found.ns, error=error)


def sentence(event: Event) -> str:
    """The book's line, behind the interface's name."""
    if event.event == "started":
        return f"{event.device}: scan started (on-CPU PID {event.pid}, {event.comm})"
    if event.event == "channel":
        return (
            f"{event.device}: scanning channel {event.band} freq {event.frequency}: beacon_found {event.beacon_found}"
        )
    if event.event == "refused":
        return f"{event.device}: scan refused: {event.error}"
    return f"{event.device}: scan {event.event}: {(event.ns or 0) // 1_000_000} ms"


TOOL = EventTool(
    name="ieee80211scan",
    doc=__doc__,
    section="10.3.30",
    tracing="WiFi scans",
    options=NoOptions,
    build=build,
    drop_labels={"scans": "scans under way", "reports": "steps of scans"},
    records=steps,
    sentence=sentence,
    record=Event,
    columns=(
        Column("TIME", 8),
        Column("DEV", key="device"),
        Column("EVENT"),
        Column("PID"),
        Column("COMM"),
        Column("CHANNELS"),
        Column("BAND"),
        Column("FREQ", key="frequency", field="frequency_mhz"),
        Column("BEACON_FOUND"),
        Column("MS", key="ns", scale=1_000_000, field="duration_ns", drawn=True),
        Column("ERROR"),
    ),
    examples=(
        Example("ieee80211scan", "every scan until Ctrl-C"),
        Example("ieee80211scan -d 60", "for a minute"),
        Example("ieee80211scan --json", "one object per line, with all that is known"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: ieee80211scan.open()
