"""Messages about objects that the kernel keeps for programs: kptrs, timers, dynptrs, iterators, exceptions, kfuncs.

They stand before the others in the table: each names its subject, so that none is taken for another.
"""

from __future__ import annotations

_R = r"(?P<register>R\d+)"
_OBJECT = r"(bpf_(?!spin_lock)\w+|kptr|graph node)"

# Fields of `VerifierMessage`.
OBJECT_ROWS = (
    # --- fields of map values ---
    (
        "special-offset",
        rf"{_R} doesn't have constant offset|kptr access cannot have variable offset",
        "a kptr, timer or the like is reached at an offset known at compile time, not at a run-time index",
    ),
    (
        "special-absent",
        (
            rf"{_R} has no valid kptr|map '[^']*' (has no valid|has to have BTF in order to use) {_OBJECT}"
            r"|off=?\s?\d+ doesn't point to (kptr|'struct bpf_\w+')|bpf_\w+ not found at offset=\d+"
        ),
        "the map's value has no such field there, or its map was made without the BTF that says so",
    ),
    (
        "kptr-unreferenced",
        r"off=\d+ kptr isn't referenced kptr",
        "kptr_xchg takes members marked __kptr, not those marked __kptr_untrusted",
    ),
    (
        "kptr-type",
        rf"invalid kptr access, {_R} type=",
        "this member keeps pointers of another type, or such as the program owns",
    ),
    (
        "kptr-store",
        r"store to (referenced|percpu) kptr disallowed|BPF_ST imm must be 0 when storing to kptr",
        "a pointer that a map owns is put in and taken out by kptr_xchg",
    ),
    (
        "kptr-access",
        r"kptr access (misaligned|size must be)|kptr (in map can only be|cannot be) accessed",
        "a kptr is loaded with its whole 8 bytes, and helpers that copy memory don't touch it",
    ),
    (
        "special-access",
        r"bpf_(?!spin_lock)\w+ cannot be accessed directly by load/store",
        "a timer, list or tree in a map's value is touched by its own helpers alone",
    ),
    (
        "special-kind",
        r"tracing progs cannot use bpf_(?!spin_lock)\S+",
        "programs at kprobes, tracepoints, raw tracepoints and perf events can't use a map with timers, lists or trees",
    ),
    (
        "special-map",
        r"(timer|workqueue) pointer in R1 map_uid=\d+ doesn't match map pointer",
        "the map that is passed is not the one that the timer or work queue lies in",
    ),
    # --- dynptrs and iterators ---
    (
        "dynptr-missing",
        (
            r"[Ee]xpected an initialized dynptr|Expected a dynptr of type"
            r"|expected pointer to stack or const struct bpf_dynptr"
        ),
        "no dynptr of this kind is here on this path: never made, released already, or overwritten",
    ),
    (
        "dynptr-changed",
        (
            r"cannot overwrite referenced dynptr|potential write to dynptr|cannot pass in dynptr at an offset"
            r"|cannot pass pointer to const bpf_dynptr|dynptr has to be at a constant offset"
        ),
        "the 16 bytes of a dynptr are the kernel's: pass their start, write nothing there, release it first",
    ),
    (
        "dynptr-memory",
        r"Unsupported reg type \w+ for bpf_dynptr_from_mem",
        "dynptr_from_mem takes memory of a map's value",
    ),
    (
        "iterator",
        r"expected (an initialized|uninitialized|valid) iter",
        "an iterator is made by …_new, then used by …_next, and ended once by …_destroy, on every path",
    ),
    # --- regions, sleeping ---
    (
        "region",
        (
            r"bpf_(preempt_enable|rcu_read_unlock|local_irq_restore)\S* (is|are) missing|nested rcu read lock"
            r"|unmatched (rcu read unlock|attempt to enable preemption)"
        ),
        "what is entered (an RCU section, preemption disabled) is left once, on every path",
    ),
    (
        "region-wanted",
        r"expected an RCU CS when using",
        "this stands between rcu_read_lock() and rcu_read_unlock() only",
    ),
    (
        "sleeping",
        (
            r"is sleepable within|sleepable helper \S+ in|might sleep in a non-sleepable prog|must be sleepable to call"
            r"|global function calls are not allowed with"
        ),
        "this may sleep, which the program's kind, an RCU section, a lock or disabled preemption forbids",
    ),
    # --- calls ---
    (
        "kfunc-argument",
        (
            r"args?#\d+ expected pointer to|arg#\d+ (expected for|pointer type|doesn't point to|is neither)"
            r"|Unrecognized arg#\d+|pointer in R\d+ isn't map pointer"
        ),
        "the kernel function takes a pointer to something else there",
    ),
    (
        "global-arguments",
        r"Caller passes invalid args into func#\d+",
        "a global function gets what its declaration does not allow: None, another type, memory of another size",
    ),
    (
        "exception",
        (
            r"bpf_throw kfunc .*cannot be called from callback|exception c(all)?b(ack)? |multiple exception callback"
            r"|cannot (call|tail call within) exception cb"
        ),
        "an exception's callback is one global function of one integer, and what helpers call back can't throw",
    ),
    (
        "allocation",
        r"bpf_(percpu_)?obj_new\S* (requires prog BTF|type)",
        "such an object is a structure of the program's own BTF, of at most 512 bytes per processor",
    ),
    ("cgroup-storage-flags", r"get_local_storage\(\) doesn't support non-zero flags", "its second argument must be 0"),
    (
        "packet-load",
        r"LD_ABS is (not|only) allowed|BPF_LD_\[ABS\|IND\] (?!instructions)",
        "the old loads from packets stand only in functions that return a number and hold nothing: use skb_load_bytes",
    ),
    (
        "constant-text",
        r"does not point to a readonly map|direct value access on string failed|string is not zero-terminated",
        "the text must be in a frozen map that is read-only for programs, and end with a zero byte",
    ),
    # --- what a program names ---
    (
        "arena",
        r"arena's user address must be set",
        "an arena has its address in user space before a program with it is loaded: by map_extra, or by mapping it",
    ),
    (
        "one-each",
        r"[Oo]nly one (cgroup storage of each type is allowed|arena per program)",
        "a program can use just one such map",
    ),
    (
        "capability",
        r"only to CAP_PERFMON|allowed for CAP_BPF and CAP_SYS_ADMIN|CAP_BPF and CAP_PERFMON are required",
        "this takes CAP_BPF and CAP_PERFMON",
    ),
)
