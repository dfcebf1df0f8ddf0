"""The interpreter's bpf_fib_lookup against the kernel's, in a namespace with devices and routes of the test's own."""

from __future__ import annotations

import errno
import random
from ipaddress import ip_address
from pathlib import Path
from struct import pack_into

import pytest

from pyebpf.asm import encode, link, parse, resolve
from pyebpf.errors import InvalidValue
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import (
    BPF_FIB_LKUP_RET_BLACKHOLE as BLACKHOLE,
    BPF_FIB_LKUP_RET_FRAG_NEEDED as FRAG_NEEDED,
    BPF_FIB_LKUP_RET_FWD_DISABLED as FWD_DISABLED,
    BPF_FIB_LKUP_RET_NO_NEIGH as NO_NEIGH,
    BPF_FIB_LKUP_RET_NOT_FWDED as NOT_FWDED,
    BPF_FIB_LKUP_RET_PROHIBIT as PROHIBIT,
    BPF_FIB_LKUP_RET_SUCCESS as SUCCESS,
    BPF_FIB_LKUP_RET_UNREACHABLE as UNREACHABLE,
    BPF_FIB_LKUP_RET_UNSUPP_LWT as UNSUPP_LWT,
)
from pyebpf.vm import Machine
from pyebpf.vm.routes import Device, Neighbour, Route, Routes
from tests.support.needs import needs
from tests.support.traffic import inside

IN, OUT, CLOSED, ABSENT = 11, 12, 13, 999
DIRECT, OUTPUT, SKIP_NEIGH, TBID, SRC, MARK = (1 << bit for bit in range(6))
AT, SIZE = 20, 64
REFUSED = -errno.EINVAL % (1 << 32)

DEVICES = (
    Device(IN, "02:00:00:00:00:11", ("10.1.0.1/24", "2001:db8:1::1/64")),
    Device(OUT, "02:00:00:00:00:12", ("10.2.0.1/24", "10.22.0.1/28", "2001:db8:2::1/64", "2001:db8:22::1/64")),
    Device(CLOSED, "02:00:00:00:00:13", ("10.3.0.1/31", "2001:db8:3::1/127"), forwards=False),
)
MTUS = {1: 65536, IN: 1500, OUT: 1400, CLOSED: 1500}
ROUTES = (
    Route("10.9.0.0/16", OUT, via="10.2.0.2"),
    Route("10.9.1.0/24", IN, via="10.1.0.7", metric=7),
    Route("10.9.1.0/24", OUT, via="10.2.0.2", metric=5),
    Route("10.9.2.0/24", OUT, via="10.22.0.3"),
    Route("10.9.3.0/24", OUT, via="10.2.0.2", source="10.1.0.1"),
    Route("10.9.4.0/24", OUT, via="10.2.0.2", mtu=700),
    Route("10.9.5.0/24", OUT, via="2001:db8:2::2"),
    Route("10.9.6.0/24", kind="blackhole"),
    Route("10.9.7.0/24", kind="unreachable"),
    Route("10.9.8.0/24", kind="prohibit"),
    Route("10.9.9.0/24", kind="throw"),
    Route("10.9.10.0/24", OUT, via="10.2.0.99"),
    Route("10.9.11.0/24", CLOSED, via="10.3.0.0"),
    Route("10.9.12.0/24", OUT, encapsulated=True),
    Route("10.8.0.0/16", OUT, via="10.2.0.2", table=77),
    Route("10.9.0.0/16", IN, via="10.1.0.7", table=77),
    Route("2001:db8:9::/48", OUT, via="2001:db8:2::2"),
    Route("2001:db8:9:1::/64", IN, via="2001:db8:1::7", metric=7),
    Route("2001:db8:9:1::/64", OUT, via="2001:db8:2::2", metric=5),
    Route("2001:db8:9:2::/64", OUT, via="2001:db8:22::3"),
    Route("2001:db8:9:3::/64", OUT, via="2001:db8:2::2", source="2001:db8:1::1"),
    Route("2001:db8:9:4::/64", OUT, via="2001:db8:2::2", mtu=1290),
    Route("2001:db8:9:6::/64", kind="blackhole"),
    Route("2001:db8:9:7::/64", kind="unreachable"),
    Route("2001:db8:9:8::/64", kind="prohibit"),
    Route("2001:db8:9:9::/64", kind="throw"),
    Route("2001:db8:9:a::/64", OUT, via="2001:db8:2::99"),
    Route("2001:db8:9:c::/64", OUT, encapsulated=True),
    Route("2001:db8:8::/48", OUT, via="2001:db8:2::2", table=77),
    Route("2001:db8:9::/48", IN, via="2001:db8:1::7", table=77),
)
NEIGHBOURS = (
    Neighbour(IN, "10.1.0.7", "02:00:00:00:01:07"),
    Neighbour(OUT, "10.2.0.2", "02:00:00:00:02:02"),
    Neighbour(OUT, "10.22.0.3", "02:00:00:00:22:03"),
    Neighbour(CLOSED, "10.3.0.0", "02:00:00:00:03:00"),
    Neighbour(IN, "2001:db8:1::7", "02:00:00:00:01:07"),
    Neighbour(OUT, "2001:db8:2::2", "02:00:00:00:02:02"),
    Neighbour(OUT, "2001:db8:22::3", "02:00:00:00:22:03"),
)
TARGETS = [
    "10.1.0.1", "10.1.0.7", "10.1.0.255", "10.1.0.0", "10.2.0.2", "10.2.0.200", "10.22.0.3", "10.22.0.15", "10.3.0.0",
    *(f"10.9.{third}.1" for third in range(13)), "10.8.0.1", "10.8.5.5", "192.0.2.1", "127.0.0.1", "127.1.2.3",
    "127.255.255.255", "224.0.0.1", "255.255.255.255", "0.0.0.0", "2001:db8:1::1", "2001:db8:1::7", "2001:db8:1::",
    "2001:db8:2::2", "2001:db8:2::200", "2001:db8:22::3", "2001:db8:3::",
    *(f"2001:db8:9:{third:x}::1" for third in range(13)), "2001:db8:8::1", "2001:db8:ffff::1", "::1", "ff02::1",
    "fe80::1", "::",
]  # fmt: skip


def words(route: Route) -> str:
    """The route as a command of ip(8)."""
    ipv6 = ":" in route.to
    text = f"route add {route.kind} {route.to} table {route.table}"
    if route.encapsulated:
        text += f" encap {'ip6 id 7 dst 2001:db8:2::2' if ipv6 else 'ip id 7 dst 10.2.0.2'}"
    elif route.via:
        text += f" via {'inet6 ' if ':' in route.via and not ipv6 else ''}{route.via}"
    if route.kind == "unicast":
        text += f" dev d{route.device}"
    for word, value in (("metric", route.metric), ("src", route.source), ("mtu lock", route.mtu)):
        text += f" {word} {value}" if value else ""
    return text


@pytest.fixture
def router(make_namespace):
    """A namespace with these devices, routes and neighbours."""
    # Linux 5.12 and later look at lengths with tc, and say the MTU.
    needs("helper:check_mtu@sched_cls")
    space, other = make_namespace(), make_namespace()
    commands = []
    for each in DEVICES:
        name = f"d{each.index}"
        peer = f"peer name {name} netns {other.pid}"
        commands += [f"link add {name} index {each.index} address {each.hardware} type veth {peer}"]
        commands += [f"link set {name} mtu {MTUS[each.index]} up addrgenmode none"]
        commands += [
            f"address add {address} dev {name}{' nodad' if ':' in address else ' broadcast +'}"
            for address in each.addresses
        ]
    other.configure(*(f"link set lo mtu {MTUS[1]}",))
    space.configure(*commands)
    other.configure(*(f"link set d{each.index} up" for each in DEVICES))
    space.configure(
        *(words(each) for each in ROUTES),
        *(
            f"neigh replace {each.address} lladdr {each.hardware} dev d{each.device} nud permanent"
            for each in NEIGHBOURS
        ),
    )
    with inside(space):
        for each in DEVICES:
            for version in ("ipv4", "ipv6"):
                Path(f"/proc/sys/net/{version}/conf/d{each.index}/forwarding").write_text(str(int(each.forwards)))
    return space


def machine() -> Machine:
    """A machine that was told the same."""
    made = Machine(strict=False)
    made.mtus = dict(MTUS)
    for each in (*DEVICES, *ROUTES, *NEIGHBOURS):
        made.routes.add(each)
    return made


def program(kind: ProgramType, flags: int, size: int = SIZE) -> str:
    """bpf_fib_lookup of the 64 bytes in the packet, which come back there."""
    data, end, width = (76, 80, 4) if kind is ProgramType.SCHED_CLS else (0, 4, 4)
    copies = [(at, f"r1 = *(u64 *)(r8 + {AT + at})\n*(u64 *)(r10 - {SIZE - at}) = r1") for at in range(0, SIZE, 8)]
    back = [f"r1 = *(u64 *)(r10 - {SIZE - at})\n*(u64 *)(r8 + {AT + at}) = r1" for at, _ in copies]
    return "\n".join(
        [
            f"r6 = r1\nr8 = *(u{8 * width} *)(r6 + {data})\nr9 = *(u{8 * width} *)(r6 + {end})\nr0 = 77",
            f"r1 = r8\nr1 += {AT + SIZE}\nif r1 > r9 goto end",
            *(text for _, text in copies),
            f"r1 = r6\nr2 = r10\nr2 += -{SIZE}\nr3 = {size}\nr4 = {flags}\ncall bpf_fib_lookup",
            *back,
            "end: exit",
        ]
    )


def question(to: str, *, device: int = IN, origin: str = "", length: int = 0, family: int = 0, table: int = 0) -> bytes:
    """A struct bpf_fib_lookup."""
    address = ip_address(to)
    source = ip_address(origin or ("10.1.0.7" if address.version == 4 else "2001:db8:1::7"))
    params = bytearray(SIZE)
    pack_into("<BBHHHI", params, 0, family or {4: 2, 6: 10}[address.version], 17, 0x3930, 0x3500, length, device)
    params[16 : 16 + len(source.packed)] = source.packed
    params[32 : 32 + len(address.packed)] = address.packed
    pack_into("<I", params, 48, table)
    params[52:64] = b"\xee" * 12
    return bytes(params)


class Both:
    """The helper in the kernel and in the interpreter."""

    def __init__(self, space):
        self.space = space
        self.machine = machine()

    def ask(self, kind, flags, questions, *, size=SIZE, room=40):
        """What each question gives: the code and the struct, of the kernel and of the interpreter."""
        code = link(parse(program(kind, flags, size)))
        loaded = bpf.prog_load(kind, encode(resolve(code)), log_level=1, log_size=1 << 16)
        assert loaded.descriptor is not None, loaded.log
        ours = self.machine.load(code, program_type=kind)
        found = []
        with loaded.descriptor as descriptor, inside(self.space):
            for params in questions:
                packet = bytes(12) + b"\x08\x00" + bytes(AT - 14) + params + bytes(room)
                ran = bpf.prog_test_run(descriptor.fileno(), data=packet, data_out=1 << 13)
                seen = self.machine.run(ours, packet=packet)
                part = slice(AT, AT + SIZE)
                found.append(((ran.retval, ran.data[part]), (seen.value & 0xFFFF_FFFF, seen.packet[part])))
        return found


KINDS = [ProgramType.SCHED_CLS, ProgramType.XDP]


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_the_kernels(router, kind):
    """Every target from every device, with every flag: code, device, next hop, addresses, metric, MTU."""
    both = Both(router)
    codes = set()
    every = (0, DIRECT, OUTPUT, SKIP_NEIGH, DIRECT | OUTPUT, DIRECT | TBID, TBID, SRC, SRC | SKIP_NEIGH, MARK)
    # Each run at XDP takes milliseconds.
    for flags in every if kind is ProgramType.SCHED_CLS else (0, DIRECT | OUTPUT, SRC):
        questions = [
            question(to, device=device, table=77 if flags & TBID else 0)
            for to in TARGETS
            for device in (IN, OUT, CLOSED, 1, ABSENT)
        ]
        answers = both.ask(kind, flags, questions)
        if flags & ~(DIRECT | OUTPUT) and all(kernel[0] == REFUSED for (kernel, _) in answers):
            continue  # a flag that this kernel does not know
        for asked, (kernel, vm) in zip(questions, answers, strict=True):
            assert vm == kernel, (flags, ip_address(asked[32:36] if asked[0] == 2 else asked[32:48]), asked)
            codes.add(kernel[0])
    refused = {BLACKHOLE, UNREACHABLE, PROHIBIT, NOT_FWDED, FWD_DISABLED, NO_NEIGH, UNSUPP_LWT}
    assert codes == {SUCCESS, *refused, -errno.ENODEV % (1 << 32)}


@pytest.mark.parametrize("kind", KINDS)
def test_sizes(router, kind):
    """A length that is given, of every route's MTU and one more; the packet's own where none is."""
    both = Both(router)
    targets = [to for to in TARGETS if to.split(".")[0] != "127"]
    lengths = (1, 700, 701, 1280, 1281, 1290, 1291, 1400, 1401, 1500, 1501, 65535)
    questions = [question(to, length=length) for to in targets for length in lengths]
    for asked, (kernel, vm) in zip(questions, both.ask(kind, 0, questions), strict=True):
        assert vm == kernel, asked
    codes = set()
    for whole in (1399, 1400, 1414, 1418, 1419, 1500, 1518, 1519):
        questions = [question(to) for to in targets]
        for asked, (kernel, vm) in zip(questions, both.ask(kind, 0, questions, room=whole - AT - SIZE), strict=True):
            assert vm == kernel, (whole, asked)
            codes.add(kernel[0])
    assert (FRAG_NEEDED in codes) == (kind is ProgramType.SCHED_CLS)


def test_what_is_asked_wrongly(router):
    """Sizes, flags and families that there are not."""
    both = Both(router)
    for flags, family, size in ((0, 0, 63), (0, 0, 4), (1 << 10, 0, SIZE), (0, 7, SIZE), (0, 0, SIZE)):
        [(kernel, vm)] = both.ask(ProgramType.XDP, flags, [question("10.9.0.1", family=family)], size=size)
        assert vm == kernel, (flags, family, size)


def test_random_tables(router):
    """97 routes of random lengths and metrics, 401 targets: the longest prefix, then the lowest metric."""
    chance = random.Random(3)
    both = Both(router)
    made: dict[tuple[str, int], Route] = {}
    while len(made) < 97:
        length = chance.randrange(17, 31)
        raw = 0x0A0B_0000 | chance.getrandbits(16) & chance.choice([0xFFFF, 0xFF, 0xF0F0])
        to = f"{ip_address(raw >> (32 - length) << (32 - length))}/{length}"
        kind = chance.choice(["unicast"] * 4 + ["blackhole", "prohibit", "throw"])
        device, via = chance.choice([(OUT, "10.2.0.2"), (IN, "10.1.0.7"), (OUT, "10.22.0.3")])
        route = Route(to, device, via=via, metric=chance.randrange(4)) if kind == "unicast" else Route(to, kind=kind)
        made.setdefault((to, route.metric), route)
    router.configure(*(words(each) for each in made.values()))
    for each in made.values():
        both.machine.routes.add(each)
    targets = [
        str(ip_address(0x0A0B_0000 | chance.getrandbits(16) & chance.choice([0xFFFF, 0xFF, 0xF0F0])))
        for _ in range(401)
    ]
    for flags in (0, DIRECT | OUTPUT):
        questions = [question(to, device=OUT) for to in targets]
        for to, (kernel, vm) in zip(targets, both.ask(ProgramType.XDP, flags, questions), strict=True):
            assert vm == kernel, to


def test_the_default_table(router):
    """What the main table has no route for is looked for there, if it has any."""
    both = Both(router)
    added = [Route("10.0.0.0/8", OUT, via="10.2.0.2", table=253), Route("2001:db8::/32", OUT, table=253)]
    router.configure(*(words(each) for each in added))
    for each in added:
        both.machine.routes.add(each)
    # Seen in Linux 6.1 and 6.18.15, and not in 6.12.117, 6.18.44 and 7.3: without BPF_FIB_LOOKUP_DIRECT what the main
    # table refuses is looked for there. All three are, or none.
    refusing = ("10.9.6.1", "10.9.7.1", "10.9.8.1")
    codes = [kernel[0] for kernel, _ in both.ask(ProgramType.XDP, 0, [question(to) for to in refusing])]
    assert codes in ([SUCCESS] * 3, [BLACKHOLE, UNREACHABLE, PROHIBIT])
    refused = refusing if codes[0] == SUCCESS else ()
    for flags in (0, DIRECT):
        questions = [question(to) for to in TARGETS if flags or to not in refused]
        for asked, (kernel, vm) in zip(questions, both.ask(ProgramType.XDP, flags, questions), strict=True):
            assert vm == kernel, (flags, asked)


def test_what_no_machine_can_be_told():
    """A device that is not there, addresses that are none, a kind that ip(8) does not know."""
    routes = Routes()
    with pytest.raises(InvalidValue, match="no device 5: add"):
        routes.add(Route("10.0.0.0/8", 5))
    with pytest.raises(InvalidValue, match="host bits set"):
        routes.add(Route("10.0.0.1/8"))
    with pytest.raises(InvalidValue, match="does not appear to be an IPv4 or IPv6 address"):
        routes.add(Route("10.0.0.0/8", via="router"))
    with pytest.raises(InvalidValue, match=r"none of ip\(8\)'s: 'blackhol' \(did you mean blackhole"):
        routes.add(Route("10.0.0.0/8", kind="blackhol"))
    with pytest.raises(InvalidValue, match="is not a hardware address"):
        routes.add(Neighbour(1, "10.0.0.1", "02:00"))
