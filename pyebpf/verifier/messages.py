"""The verifier's messages as data: what it prints, and what that means for the author of a probe.

Texts are those of kernel/bpf/verifier.c and kernel/bpf/btf.c from Linux 5.10 to 7.3, which reword some of them. The
first row whose pattern is found in a line of the message counts, so narrow rows stand before wide ones.
"""

from __future__ import annotations

from typing import NamedTuple

from pyebpf.verifier.object_messages import OBJECT_ROWS


class VerifierMessage(NamedTuple):
    """One row of the table.

    `pattern` is a regular expression; a group `register` names the register meant ("R2"), a group `instruction` the
    slot of the instruction meant. Where the kernel gives no slot: `opcode` is the instruction's first byte in hex,
    `descriptor` the number of the map that it names, `address` the place in its value that it loads; `end` matches if
    the end of a function is meant, `call` if a call out of the program is. `cause` says what is likely wrong and what
    to write instead.
    """

    name: str
    pattern: str
    cause: str


_RELEASE = "only what was reserved or acquired can be submitted or released: from its start, and only once"
_R = r"(?P<register>R\d+)"

# Fields of VerifierMessage.
_ROWS = (
    # --- pointers that may be None, and numbers used as pointers ---
    ("null-deref", rf"{_R} invalid mem access '\w*_or_null", "check `is None` on this path before using it"),
    (
        "null-arithmetic",
        rf"{_R} pointer arithmetic on \w*or_null\w* prohibited",
        "check `is None` on this path before using a field or element of it",
    ),
    (
        "scalar-deref",
        rf"{_R} invalid mem access '(scalar|inv)'",
        "a number is used as an address: read kernel memory by probe_read_kernel, user memory by probe_read_user",
    ),
    ("wrong-deref", rf"{_R} invalid mem access '", "memory of this kind cannot be loaded from or stored to directly"),
    (
        "null-argument",
        r"(Possibly )?NULL pointer passed to (trusted |helper )?arg\d+",
        "an argument may be None on this path: check `is None` before the call",
    ),
    (
        "untrusted-argument",
        rf"{_R} must be (referenced|a rcu pointer|referenced or trusted)",
        "the kernel function takes only pointers that the kernel keeps alive: a probe's argument, or one acquired",
    ),
    # --- registers ---
    ("uninitialised", rf"{_R} !read_ok", "it holds nothing here: never written on this path, or lost in a call before"),
    (
        "argument-type",
        rf"{_R} type=\w* expected=(?!alloc_mem\b|ringbuf_mem\b|mem$)",
        "a call got an argument of another kind than the helper takes",
    ),
    ("frame-pointer", r"frame pointer is read only", "R10 cannot be written: copy it and move the copy"),
    (
        "not-constant",
        rf"{_R} (is not a (?:known )?const(?:ant)?|must be a known constant|has to be a constant|unbounded size\b)",
        "the helper wants a size or flag that is known at compile time",
    ),
    # --- bounds ---
    (
        "negative-index",
        rf"{_R} min value is negative",
        "an index or size may be negative: check `>= 0`, or convert it by u64() or a mask",
    ),
    (
        "unbounded-index",
        rf"{_R} unbounded memory access",
        "an index or size has no upper bound here: compare it with the limit (in 64 bits), or mask it",
    ),
    (
        "map-value-bounds",
        r"invalid access to map value, value_size=\d+ off=-?\d+ size=\d+",
        "outside the map's value: check the index against the length before using it",
    ),
    (
        "memory-bounds",
        r"invalid access to (memory|map key|key), (mem|key)_size=\d+ off=-?\d+ size=\d+",
        "outside the record or buffer: check the index against its length",
    ),
    (
        "packet-bounds",
        rf"invalid access to packet, off=-?\d+ size=\d+, {_R}",
        "the packet may end before: compare with data_end on this path, and again after calls that move the packet",
    ),
    (
        "packet-offset",
        rf"{_R} offset is outside of the packet",
        "the packet may end before: compare with data_end on this path",
    ),
    (
        "outside-range",
        rf"{_R} (min|max) value is outside of the (allowed memory|array) range",
        "an index may lie outside: compare it with the length in the same variable that is used as the index",
    ),
    ("zero-size", rf"({_R} )?invalid zero-sized read", "a size may be 0 here: check that it is greater"),
    (
        "unbounded-arithmetic",
        r"math between \w+ pointer and (register with unbounded min value|-?\d+) is not allowed",
        "a place is computed from an index without bounds: compare it with the length before",
    ),
    (
        "arithmetic-out-of-bounds",
        r"value -?\d+ makes \w+ pointer be out of bounds|\w+ pointer offset -?\d+ is not allowed",
        "a place is computed from an index that is too large: compare it with the length before",
    ),
    (
        "map-value-address",
        r"(invalid access to map value pointer, value_size=\d+ off=|direct value offset of )(?P<address>\d{1,10})",
        "the address that is loaded lies outside the map's value",
    ),
    (
        "helper-packet",
        r"helper access to the packet is not allowed",
        "this helper takes no place in the packet: copy the bytes to the stack by skb_load_bytes or xdp_load_bytes",
    ),
    (
        "buffer-bounds",
        rf"{_R} invalid (variable )?\w* ?buffer (offset|access): off=",
        "such memory (a raw tracepoint's writable argument, an iterator's key or value) has only constant offsets",
    ),
    # --- stack ---
    (
        "stack-uninitialised",
        rf"invalid (indirect )?read from stack( {_R})? off -?\d+\+",
        "these bytes of the stack were never written on this path",
    ),
    (
        "stack-bounds",
        rf"invalid( indirect)?( access to| read from| write to)? stack (type )?{_R} off=",
        "outside the stack frame: it has 512 bytes, of which only those written may be read",
    ),
    (
        "stack-variable",
        rf"{_R}.*variable.*stack|invalid (zero-size|unbounded|variable)[-\w]* .*stack",
        "the stack cannot be indexed by a run-time value here: use a map",
    ),
    (
        "stack-spill",
        r"invalid size of register (spill|fill)|corrupt(ed)? spill",
        "a pointer on the stack is read or written in pieces",
    ),
    (
        "stack-size",
        (
            r"combined stack size of \d+ calls is \d+\. Too large|stack size of subprog"
            r"|stack size \d+ .*exceed|stack depth \d+ exceeds"
        ),
        "the functions' frames are over 512 bytes together: keep large records in a map",
    ),
    ("call-depth", r"the call stack of \d+ frames is too deep", "at most 8 functions may be inside one another"),
    (
        "tail-call-stack",
        r"tail_calls are not allowed when call stack of previous frames is \d+ bytes",
        "a function that tail-calls may have at most 256 bytes of stack above it",
    ),
    # --- arguments by BTF; the line about the context follows ---
    ("argument-index", r"func '[^']*' doesn't have \d+-th argument", "the tracepoint or function has fewer arguments"),
    (
        "argument-not-pointer",
        r"func '[^']*' (arg\d+ (type|has).*)|func '[^']*' size \d+ must be \d+",
        "this argument is not of the kind or width that is read",
    ),
    # --- context ---
    (
        "context-access",
        r"invalid bpf_context access off=-?\d+ size=\d+",
        "this kind of program has no such context field, or not in this width, or not for writing",
    ),
    ("release", rf"dereference of modified (alloc_mem|ringbuf_mem|ptr_\w*|sock\w*) ptr {_R}", _RELEASE),
    (
        "negative-offset",
        rf"negative offset \w+ ptr {_R} off=-\d+ disallowed",
        "an address before the start of what the pointer points to",
    ),
    (
        "context-modified",
        rf"dereference of modified \w+ ptr {_R}|variable \w+ access var_off=",
        "the context can only be read at constant offsets from its own start",
    ),
    (
        "context-store",
        rf"BPF_(ST|STX|ATOMIC|XADD) stores into {_R} \w+ is not allowed",
        "this store does not work on such memory: store from a register, or not atomically",
    ),
    (
        "socket-access",
        rf"{_R} invalid (sock|sock_common|tcp_sock|xdp_sock) access off=\d+ size=\d+",
        "this socket has no such field, or not in this width: sk_fullsock() and tcp_sock() give the kinds with more",
    ),
    # --- typed kernel pointers ---
    (
        "beyond-struct",
        r"access beyond (struct|the end of member) ",
        "the load does not fall on one member of the structure: its layout is another than the program assumes",
    ),
    ("member-width", r"cannot access ptr member", "a pointer member is read with another width than its own"),
    (
        "kernel-write",
        r"only read (from \w+ )?is supported|cannot write into \w*ptr_\w*|no write support to \w+ at off",
        "kernel memory can be read, not written",
    ),
    (
        "kernel-offset",
        rf"{_R} is \w+ (invalid negative access|invalid variable offset)",
        "kernel memory is read outside the structure or at a run-time offset: use probe_read_kernel",
    ),
    # --- reads and stores ---
    ("write-only", r"read from map forbidden", "programs may only write this map: it was made with BPF_F_WRONLY_PROG"),
    (
        "read-only",
        (
            rf"write into map forbidden|({_R} )?cannot write into (rdonly_\w+|packet|\w+)"
            r"|may write into memory pointed by R\d+|does not allow writes to packet data|write to change key R\d+"
        ),
        "this memory is read-only for the program",
    ),
    # --- arithmetic ---
    (
        "pointer-bitwise",
        rf"{_R} bitwise operator .* on pointer prohibited",
        "a pointer cannot be masked: only + and - with numbers",
    ),
    ("pointer-32", rf"{_R} 32-bit pointer arithmetic prohibited", "a pointer was cut to 32 bits"),
    ("pointer-pointer", rf"{_R} pointer (\+=|-=) pointer prohibited", "two pointers cannot be added"),
    ("pointer-operator", rf"{_R} pointer arithmetic (with|on) .* prohibited", "this pointer can't be computed with"),
    (
        "pointer-subtract",
        rf"{_R} (tried to subtract pointer from scalar|subtraction from stack pointer prohibited|tried to \w+ from)",
        "only a number can be subtracted from this pointer",
    ),
    ("pointer-partial", rf"{_R} partial copy of pointer", "a pointer was cut to 32 bits"),
    ("division", r"div by zero|division by zero", "a constant divisor of 0"),
    ("shift", r"invalid shift -?\d+", "a constant shift of the whole width or more"),
    ("misaligned", r"misaligned (\w+ )?access off", "the address is not a multiple of the width that is accessed"),
    (
        "mixed-pointers",
        r"same insn cannot be used with different pointers",
        "one instruction meets pointers of different kinds on different paths",
    ),
    # --- control flow ---
    (
        "infinite-loop",
        r"infinite loop detected at insn (?P<instruction>\d{1,10})",
        "the loop's end cannot be proved: use `for … in range(n)` with a bound",
    ),
    (
        "back-edge",
        r"back-edge from insn (?P<instruction>\d{1,10}) to \d+|^recursive call from \S+ to ",
        "control goes back where it may not: a function that calls itself, or a loop without CAP_BPF",
    ),
    (
        "unreachable",
        r"unreachable insn (?P<instruction>\d{1,10})",
        "no path leads here, and the kernel takes no dead code",
    ),
    (
        "jump-range",
        r"jump out of range from insn (?P<instruction>\d{1,10}) to -?\d+",
        "a jump leads outside its function",
    ),
    (
        "jump-into-load",
        r"jump into the middle of ldimm64 insn (?P<instruction>\d{1,10})|invalid BPF_LD_IMM insn",
        "a jump leads into the second half of this instruction",
    ),
    (
        "no-exit",
        r"(?P<end>last insn is not an exit or jmp)|no-fallthrough|subprog is not exited|fall-through",
        "the last instruction does not end the function",
    ),
    (
        "too-large",
        r"BPF program is too large\. Processed \d+ insn",
        "the verifier walked a million instructions: fewer passes of a loop, or bpf_loop",
    ),
    (
        "too-complex",
        r"The sequence of \d+ jumps is too complex",
        "too many branches in a row: split the probe, or use a loop",
    ),
    (
        "symbol-address",
        r"failed to find the address for kernel symbol '",
        "this kernel keeps the addresses of functions only: it was built without CONFIG_KALLSYMS_ALL",
    ),
    # --- calls ---
    (
        "dynptr-again",
        r"Dynptr has to be an uninitialized dynptr",
        "Linux before 6.3 makes a dynptr once at its place: not in a loop, unless it is unrolled",
    ),
    ("call-destination", r"(?P<call>call to invalid destination)", "a call leads outside the program"),
    (
        "helper-gpl",
        r"cannot call GPL[- ](restricted|only) function|GPL-restricted|from non-GPL compatible program",
        "the helper is for GPL-compatible programs only: give the license GPL",
    ),
    (
        "helper-kind",
        (
            r"program of this type cannot use helper|unknown func|helper call is not allowed in probe"
            r"|func \S+#\d+ (supported only for|not supported for program type)|cannot update sockmap in this context"
        ),
        "this kind of program does not have that helper on this kernel",
    ),
    ("helper-invalid", r"invalid func ", "this kernel does not have that helper"),
    (
        "kfunc-kind",
        r"calling kernel function .* is not allowed|\w+ is only allowed in bpf_",
        "this kind of program may not call that kernel function",
    ),
    ("map-kind", r"cannot pass map_type \d+ into func", "the helper does not work on this kind of map"),
    (
        "map-descriptor",
        r"fd (?P<descriptor>\d{1,10}) is not pointing to valid bpf_map",
        "an instruction names something that is not a map",
    ),
    (
        "map-program",
        r"cannot be used in|(tracing|perf_event|sleepable) (progs|programs).* map",
        "this kind of map cannot be used in this kind of program",
    ),
    (
        "missing-func-info",
        r"missing btf func_info|missing func_info",
        "callbacks and calls need debug information of every function",
    ),
    # --- references and locks ---
    (
        "leak",
        r"Unreleased reference id=\d+ alloc_insn=(?P<instruction>\d{1,10})",
        "what is reserved or acquired here is not submitted, discarded or released on every path",
    ),
    (
        "leak-at-exit",
        r"would lead to reference leak|reference leak",
        "something reserved or acquired is not submitted, discarded or released on every path",
    ),
    (
        "release",
        (
            rf"{_R} (must (be referenced|have zero offset) when passed|type=\w* expected=((alloc_|ringbuf_)mem\b|mem$))"
            r"|reference has not been acquired|release .*unacquired|arg \d+ is an unacquired reference"
            r"|release kernel function \w+ expects refcounted|cannot release unowned"
        ),
        _RELEASE,
    ),
    (
        "lock-map",
        r"has to have BTF in order to use bpf_spin_lock|has no valid bpf_spin_lock|doesn't have .*bpf_spin_lock",
        "this map's value has no lock that BTF describes",
    ),
    ("lock-kind", r"\w+ prog(ram)?s cannot use bpf_spin_lock", "this kind of program cannot take locks"),
    (
        "lock",
        r"bpf_spin_(un)?lock|(function|helper) calls? (is|are) not allowed while holding a lock",
        "a lock is taken twice, not given back on every path, or a call stands inside it",
    ),
    # --- result ---
    (
        "return-unknown",
        r"At [\w ]+ the register R\d+ is not a (known|scalar) value|R0 not a scalar value",
        "a number must be returned here, not an address",
    ),
    (
        "return-range",
        r"At [\w ]+ the register (?P<register>R\d+) has",
        "the returned number is not one that this kind of program may return",
    ),
    ("return-pointer", rf"{_R} leaks addr( as return value)?|leaks addr", "an address would reach user space"),
    (
        "pointer-comparison",
        rf"{_R} pointer comparison prohibited",
        "programs without CAP_PERFMON compare addresses only with 0 and with the packet's end",
    ),
    # --- code that means nothing to this kernel ---
    (
        "kfunc-call",
        r"BPF_CALL uses reserved fields",
        "programs call kernel functions (kfunc) since Linux 5.13, those of modules since 5.16",
    ),
    (
        "opcode",
        r"unknown opcode (?P<opcode>[0-9a-f]{2})\b|invalid BPF_\w+ (insn|opcode|mode)|uses reserved fields",
        "this kernel does not know the instruction: compile for its instruction set",
    ),
    (
        "instruction-kind",
        r"instructions not allowed for this program type",
        "this kind of program may not use the instruction",
    ),
    ("register-number", rf"{_R} is invalid", "there are only the registers R0 to R10"),
    ("atomic-width", r"invalid atomic operand size|BPF_ATOMIC.*invalid", "atomic operations work on 4 or 8 bytes"),
    # --- BTF and attachment ---
    (
        "not-modifiable",
        r"\w+\(\) is not modifiable",
        "fmod_ret is for security_* functions and those of the kernel's error-injection list: use @bpf.fentry or fexit",
    ),
    (
        "attach-target",
        r"attach_btf_id \d+ is (invalid|not)|btf_id \d+ is not|Tracing programs must provide btf_id",
        "the program's target is not in this kernel's BTF",
    ),
    (
        "line-info",
        r"(Invalid|invalid) (line_info|func_info)|line_info|func_info",
        "the debug information does not fit the program",
    ),
)

VERIFIER_MESSAGES = tuple(VerifierMessage(*row) for row in (*OBJECT_ROWS, *_ROWS))
