"""Collect the facts that `generate_uapi.py` turns into modules: names, numbers, prototypes.

Run on a machine with the newest kernel that is to be covered; needs bpftool, clang and the C library's headers.
Sources: enums of the running kernel's BTF; macros and helper prototypes of linux/bpf.h and linux/perf_event.h;
system-call numbers of asm/unistd.h. What newer kernels added and these sources lack stands in ADDITIONS and
NEWER_SYSTEM_CALLS, with the release.

    python tools/collect_uapi_facts.py [--clang clang-19] > tools/uapi_facts.json
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

INCLUDE = Path("/usr/include")
ENUMS = (
    "bpf_cmd",
    "bpf_map_type",
    "bpf_prog_type",
    "bpf_attach_type",
    "bpf_link_type",
    "bpf_func_id",
    "bpf_stats_type",
    "bpf_task_fd_type",
    "bpf_perf_event_type",
    "xdp_action",
    "tcx_action_base",
    "sk_action",
    "bpf_ret_code",
    "bpf_adj_room_mode",
    "bpf_hdr_start_off",
    "bpf_lwt_encap_mode",
    "perf_type_id",
    "perf_hw_id",
    "perf_sw_ids",
    "perf_hw_cache_id",
    "perf_hw_cache_op_id",
    "perf_hw_cache_op_result_id",
    "perf_event_sample_format",
    "perf_event_read_format",
    "perf_event_type",
)
BPF_ANONYMOUS = re.compile(
    r"BPF_F_|BPF_RB_(?!ROOT|NODE)|BPF_RINGBUF_|BPF_SOCK_OPS_|BPF_SKB_T|BPF_CSUM_LEVEL_|BPF_FIB_L|BPF_LOCAL_STORAGE_GET_F_"
    r"|BPF_SK_STORAGE_GET_F_|BPF_SK_LOOKUP_F_|BPF_LOAD_HDR_OPT_|BPF_DEVCG_|BPF_FLOW_DISSECTOR_F_|BPF_(ANY|NOEXIST|EXIST)$"
    r"|BPF_MTU_CHK_|TCP_BPF_(?!IPV|BASE|[TR]X|NUM)|BTF_F_|BPF_WRITE_HDR_TCP_"
)
MACROS = {
    "linux/bpf.h": re.compile(r"BPF_F_|BPF_PSEUDO_|BPF_OBJ_NAME_LEN|BPF_TAG_SIZE|BPF_BUILD_ID_SIZE"),
    "linux/perf_event.h": re.compile(
        r"PERF_EVENT_IOC_|PERF_FLAG_|PERF_RECORD_MISC_|PERF_ATTR_SIZE_VER|PERF_MAX_STACK_DEPTH|PERF_AUX_FLAG_[TOPC]"
    ),
}
# Macros that linux/bpf.h got after the release that these headers are of.
ADDITIONS = {
    "BPF_F_BEFORE": 1 << 3,  # 6.6
    "BPF_F_AFTER": 1 << 4,  # 6.6
    "BPF_F_ID": 1 << 5,  # 6.6
    "BPF_F_PREORDER": 1 << 6,  # 6.15
    "BPF_F_XDP_DEV_BOUND_ONLY": 1 << 6,  # 6.3
    "BPF_F_TEST_REG_INVARIANTS": 1 << 7,  # 6.8
    "BPF_F_NETFILTER_IP_DEFRAG": 1 << 0,  # 6.6
    "BPF_F_TEST_SKB_CHECKSUM_COMPLETE": 1 << 2,  # 6.11
}
# Since 6.2.
NEWER_HELPERS = (
    "void *bpf_cgrp_storage_get(struct bpf_map *map, struct cgroup *cgroup, void *value, u64 flags)",
    "long bpf_cgrp_storage_delete(struct bpf_map *map, struct cgroup *cgroup)",
)
# Found by loading a call of each helper, in each program type, under another licence, on Linux 6.18: "cannot call
# GPL-restricted function". The last five are not offered there; they are declared so in kernel/trace/bpf_trace.c and
# drivers/media/rc/bpf-lirc.c.
GPL_ONLY = frozenset(
    {
        "probe_read",
        "trace_printk",
        "perf_event_read",
        "perf_event_output",
        "get_stackid",
        "get_current_task",
        "probe_read_str",
        "perf_event_read_value",
        "perf_prog_read_value",
        "get_stack",
        "fib_lookup",
        "tcp_check_syncookie",
        "tcp_gen_syncookie",
        "skb_output",
        "probe_read_user",
        "probe_read_kernel",
        "probe_read_user_str",
        "probe_read_kernel_str",
        "read_branch_records",
        "xdp_output",
        "seq_printf",
        "seq_write",
        "seq_printf_btf",
        "get_current_task_btf",
        "check_mtu",
        "snprintf",
        "timer_init",
        "timer_set_callback",
        "timer_start",
        "timer_cancel",
        "get_func_ip",
        "task_pt_regs",
        "get_branch_snapshot",
        "trace_vprintk",
        "copy_from_user_task",
        "tcp_raw_gen_syncookie_ipv4",
        "tcp_raw_gen_syncookie_ipv6",
        "tcp_raw_check_syncookie_ipv4",
        "tcp_raw_check_syncookie_ipv6",
        "probe_write_user",
        "override_return",
        "rc_repeat",
        "rc_keydown",
        "rc_pointer_rel",
    }
)
# The same number on all architectures. 451 came with 6.5, 469 with 6.17.
NEWER_SYSTEM_CALLS = {
    451: "cachestat",
    452: "fchmodat2",
    453: "map_shadow_stack",
    454: "futex_wake",
    455: "futex_wait",
    456: "futex_requeue",
    457: "statmount",
    458: "listmount",
    459: "lsm_get_self_attr",
    460: "lsm_set_self_attr",
    461: "lsm_list_modules",
    462: "mseal",
    463: "setxattrat",
    464: "getxattrat",
    465: "listxattrat",
    466: "removexattrat",
    467: "open_tree_attr",
    468: "file_getattr",
    469: "file_setattr",
}
X86_64_ONLY = {335: "uretprobe", 336: "uprobe"}  # 6.11, 6.18
# include/linux/errno.h: what the kernel keeps to itself, and yet returns now and then (524 above all).
KERNEL_ERRNOS = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    515: "ENOIOCTLCMD",
    516: "ERESTART_RESTARTBLOCK",
    517: "EPROBE_DEFER",
    518: "EOPENSTALE",
    519: "ENOPARAM",
    521: "EBADHANDLE",
    522: "ENOTSYNC",
    523: "EBADCOOKIE",
    524: "ENOTSUPP",
    525: "ETOOSMALL",
    526: "ESERVERFAULT",
    527: "EBADTYPE",
    528: "EJUKEBOX",
    529: "EIOCBQUEUED",
    530: "ERECALLCONFLICT",
    531: "ENOGRACE",
}
ARM64_MACROS = ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "SYS_CLONE3", "MEMFD_SECRET")


def run(*command: str, text: str | None = None) -> str:
    """Standard output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


def evaluate(clang: str, headers: tuple[str, ...], names: list[str]) -> dict[str, int]:
    """Values of C constant expressions, as the compiler sees them."""
    lines = [f"#include <{header}>" for header in headers]
    lines += [f"long long value_{name} = (long long)({name});" for name in names]
    ir = run(clang, "-x", "c", "-w", "-S", "-emit-llvm", "-o", "-", "-", text="\n".join(lines) + "\n")
    found = dict(re.findall(r"^@value_(\w+) = .*global i64 (-?\d+)", ir, re.MULTILINE))
    return {name: int(found[name]) for name in names}


def macro_names(header: str, pattern: re.Pattern[str]) -> list[str]:
    """Names of the object-like macros that match."""
    text = (INCLUDE / header).read_text()
    return sorted(n for n in re.findall(r"^#define\s+(\w+)[ \t]+\S", text, re.MULTILINE) if pattern.match(n))


def helpers(numbers: dict[str, int]) -> list[list[Any]]:
    """Rows of id, C prototype and whether GPL is needed, from the comments of linux/bpf.h."""
    text = (INCLUDE / "linux/bpf.h").read_text()
    text = text[text.index("Start of BPF helper function descriptions") : text.index("#define __BPF_FUNC_MAPPER")]
    text = re.sub(r",\n \*\s+", ", ", text)
    found = re.findall(r"^ \* ((?:const )?(?:struct )?[a-z]\w* \**bpf_\w+\([^)\n]*\))\s*$", text, re.MULTILINE)
    prototypes = {re.search(r"bpf_(\w+)\(", one)[1]: one for one in (*found, *NEWER_HELPERS)}  # type: ignore[index]  # matched above
    wanted = {name.removeprefix("BPF_FUNC_"): n for name, n in numbers.items() if n and not name.startswith("__")}
    return [[n, prototypes[name], name in GPL_ONLY] for name, n in sorted(wanted.items(), key=lambda i: i[1])]


def system_calls(clang: str) -> dict[str, dict[str, int]]:
    """Numbers by name, for each architecture."""
    out: dict[str, dict[str, int]] = {}
    arm = "".join(f"#define __ARCH_WANT_{name}\n" for name in ARM64_MACROS) + "#include <asm-generic/unistd.h>\n"
    for machine, source in (("x86_64", "#include <asm/unistd_64.h>\n"), ("aarch64", arm)):
        text = run(clang, "-E", "-dM", "-x", "c", "-", text=source)
        macros = dict(re.findall(r"^#define (__NR\w+) (\w+)$", text, re.MULTILINE))
        numbers = {}
        for name, value in macros.items():
            if name.startswith("__NR_") and name not in ("__NR_syscalls", "__NR_arch_specific_syscall"):
                numbers[name.removeprefix("__NR_")] = int(macros.get(value, value))
        numbers |= {name: number for number, name in NEWER_SYSTEM_CALLS.items()}
        if machine == "x86_64":
            numbers |= {name: number for number, name in X86_64_ONLY.items()}
        out[machine] = dict(sorted(numbers.items(), key=lambda item: item[1]))
    return out


def collect(clang: str) -> dict[str, Any]:
    """All facts."""
    dump = run("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c")
    number = re.compile(r"\t(\w+) = (-?\d+)U?L*,")
    enums = {}
    for name in ENUMS:
        body = re.search(rf"^enum {name} \{{\n(.*?)\}};", dump, re.MULTILINE | re.DOTALL)
        if body is None:
            sys.exit(f"this kernel's BTF has no enum {name}")
        enums[name] = {member: int(value) for member, value in number.findall(body[1])}
    anonymous: dict[str, int] = {}
    tcp: dict[str, int] = {}
    for body in re.findall(r"^enum(?: \w+)? \{\n(.*?)\};", dump, re.MULTILINE | re.DOTALL):
        members = {member: int(value) for member, value in number.findall(body)}
        anonymous |= {name: value for name, value in members.items() if BPF_ANONYMOUS.match(name)}
        if "TCP_ESTABLISHED" in members:
            tcp = {name: value for name, value in members.items() if name != "TCP_MAX_STATES"}
    bpf_macros = evaluate(clang, ("linux/bpf.h",), macro_names("linux/bpf.h", MACROS["linux/bpf.h"]))
    perf_macros = evaluate(
        clang,
        ("sys/ioctl.h", "linux/perf_event.h"),
        macro_names("linux/perf_event.h", MACROS["linux/perf_event.h"]),
    )
    families = sorted(
        set(re.findall(r"#define (AF_\w+)", (INCLUDE / "x86_64-linux-gnu/bits/socket.h").read_text())) - {"AF_MAX"}
    )
    errnos = {
        name: int(value)
        for header in ("errno-base.h", "errno.h")
        for name, value in re.findall(
            r"^#define\s+(E\w+)\s+(\d+)", (INCLUDE / "asm-generic" / header).read_text(), re.MULTILINE
        )
    }
    return {
        "address_families": evaluate(clang, ("sys/socket.h",), families),
        "bpf_constants": anonymous | bpf_macros | ADDITIONS,
        "enums": {name: members for name, members in enums.items() if name != "bpf_func_id"},
        "errnos": errnos | {name: value for value, name in KERNEL_ERRNOS.items()},
        "helpers": helpers(enums["bpf_func_id"]),
        "perf_constants": perf_macros,
        "system_calls": system_calls(clang),
        "tcp_states": tcp,
    }


def main() -> None:
    """Print the facts as JSON, sorted, one fact a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clang", default="clang", help="the compiler to evaluate macros with")
    options = parser.parse_args()
    print(json.dumps(collect(options.clang), indent=1))


if __name__ == "__main__":
    main()
