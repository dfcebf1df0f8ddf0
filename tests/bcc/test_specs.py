"""Specifications of argdist and trace, and the scripts that they become."""

from __future__ import annotations

import pytest

from pyebpf.bcc.expressions import CURRENT
from pyebpf.bcc.scripts import TraceOptions, distribution_script, trace_script
from pyebpf.bcc.specs import parse_distribution, parse_trace
from pyebpf.bpftrace.parser import parse
from pyebpf.errors import InvalidValue

#: The end of a return's probe whose entry keeps values: one call less.
#: The maps of calls that are under way, `$entry` and `$latency` of which each has one.
DEPTH = "let @depth0 = lruhash(10240); let @entry0_0 = lruhash(10240); "
LEFT = "if ($depth > 0) { if ($depth > 1) { @depth0[curtask] = $depth - 1; } else { delete(@depth0, curtask); } }"
#: Specifications of argdist, by the script of `-C`.
COUNTED = {
    "t:block:block_rq_issue():u32:args->bytes": (
        "tracepoint:block:block_rq_issue { @spec0[((u32)(args->bytes))] = count(); }"
    ),
    "p::tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size):size_t:size": (
        "kprobe:tcp_sendmsg { @spec0[((size_t)(((size_t)arg2)))] = count(); }"
    ),
    "r:c:gets():char*:(char*)$retval:$retval!=0": (
        "uretprobe:c:gets { if ((retval!=0)) { @spec0[str((char*)retval)] = count(); } }"
    ),
    "r:c:kill(int pid):int:$retval:$retval<0": (
        "uretprobe:c:kill { if ((((int)retval)<0)) { @spec0[((int)(retval))] = count(); } }"
    ),
    "r::tcp_recvmsg():int:$retval:$retval>0": (
        "kretprobe:tcp_recvmsg { if ((((int)retval)>0)) { @spec0[((int)(retval))] = count(); } }"
    ),
    "p:c:write(int fd):int:fd#files": "uprobe:c:write { @spec0[((int)(((int)arg0)))] = count(); }",
    "p:c:fopen(const char *name):char*:name": "uprobe:c:fopen { @spec0[str((arg0))] = count(); }",
    "p:/a b/{}c:f$g()": 'uprobe:"/a b/{}c":"f$g" { @spec0 = count(); }',
    "p:c:f(int a,\n  int b):int:a\n+\tb": "uprobe:c:f { @spec0[((int)(((int)arg0) + ((int)arg1)))] = count(); }",
    "p:c:f(void):int:1": "uprobe:c:f { @spec0[((int)(1))] = count(); }",
    "p:c:f(int a, int (*b)(int, int), char c[8], ...):int:a:b != 0 && c": (
        "uprobe:c:f { if (((arg1) != 0 && ((char)arg2))) { @spec0[((int)(((int)arg0)))] = count(); } }"
    ),
    "p:c:free()": "uprobe:c:free { @spec0 = count(); }",
    "u:python3:gc__start():int:arg1": "usdt:python3:gc__start { @spec0[((int)(arg0))] = count(); }",
    "u:python3:python:gc__start():int:arg1": "usdt:python3:python:gc__start { @spec0[((int)(arg0))] = count(); }",
    "u:python3:gc__start:int:arg1:arg1 > 1": (
        "usdt:python3:gc__start { if ((arg0 > 1)) { @spec0[((int)(arg0))] = count(); } }"
    ),
    "u:python3:python:gc__start": "usdt:python3:python:gc__start { @spec0 = count(); }",
    "u:python3:gc__start": "usdt:python3:gc__start { @spec0 = count(); }",
    "p::vfs_read():char*,u64:$comm,$pid": "kprobe:vfs_read { @spec0[comm, ((u64)(tid))] = count(); }",
    "r:c:read()": "uretprobe:c:read { @spec0[((int)(retval))] = count(); }",
    "p::f():u32,u32,u32,u32:$PID,$TGID,$UID,$GID:$PID > 1": (
        "kprobe:f { if ((pid > 1)) { @spec0[((u32)(pid)), ((u32)(pid)), ((u32)(uid)), ((u32)(gid))] = count(); } }"
    ),
    "t:a:b():u32:$COMM": "tracepoint:a:b { @spec0[comm] = count(); }",
    "p::f(int a):int:a > 1 ? a : 0": "kprobe:f { @spec0[((int)(((int)arg0) > 1 ? ((int)arg0) : 0))] = count(); }",
    'p::f(char *a):u8:1:STRCMP("x:y,z", a)': (
        'kprobe:f { if (((str((arg0)) == "x:y,z"))) { @spec0[((u8)(1))] = count(); } }'
    ),
    "p::f(struct sock *sk):u16:ntohs(sk->sk_dport):bpf_ntohl(sk->sk_daddr) != 1": (
        "kprobe:f { if ((bswap((uint32)(((struct sock *)arg0)->sk_daddr)) != 1)) "
        "{ @spec0[((u16)(bswap((uint16)(((struct sock *)arg0)->sk_dport))))] = count(); } }"
    ),
    "p::f(struct sock *sk):u16:sk->sk_num": "kprobe:f { @spec0[((u16)(((struct sock *)arg0)->sk_num))] = count(); }",
    "r:c:malloc(size_t size):u64:$entry(size):$latency > 100": (
        f"{DEPTH}let @entry0_1 = lruhash(10240); "
        "uprobe:c:malloc { $depth = @depth0[curtask] + 1; @depth0[curtask] = $depth; "
        "@entry0_0[curtask, $depth] = ((size_t)arg0); @entry0_1[curtask, $depth] = nsecs; }\n"
        "uretprobe:c:malloc { $depth = @depth0[curtask]; "
        "if (has_key(@entry0_0, (curtask, $depth)) && has_key(@entry0_1, (curtask, $depth))) { "
        "if (((nsecs - @entry0_1[curtask, $depth]) > 100)) { "
        "@spec0[((u64)(@entry0_0[curtask, $depth]))] = count(); } "
        "delete(@entry0_0, (curtask, $depth)); delete(@entry0_1, (curtask, $depth)); } " + LEFT + " }"
    ),
}
ROW = 'printf("%-7d %-7d %-15s '
#: Specifications of trace, by the probe of the script.
TRACED = {
    "do_sys_open": f'kprobe:do_sys_open {{ {ROW}do_sys_open      \\n", pid, tid, comm); }}',
    'u:a:b "%d", arg12': f'usdt:a:b {{ {ROW}b                %d\\n", pid, tid, comm, arg11); }}',
    "p:c:a::b": f'uprobe:c:"a::b" {{ {ROW}a::b             \\n", pid, tid, comm); }}',
    "c:write(int fd, const char *s) (s[1] == 'a' && s)": (
        f'uprobe:c:write {{ if ((((char *)arg1)[1] == 97 && (arg1))) {{ {ROW}write            \\n", '
        "pid, tid, comm); } }"
    ),
    'c:open (arg2 == 42) "%s %d", arg1, arg2': (
        f'uprobe:c:open {{ if ((arg1 == 42)) {{ {ROW}open             %s %d\\n", pid, tid, comm, '
        "str(arg0), arg1); } }"
    ),
    'r::vfs_read (retval < 0) "err %d", retval': (
        f'kretprobe:vfs_read {{ if ((retval < 0)) {{ {ROW}vfs_read         err %d\\n", pid, tid, comm, retval); }} }}'
    ),
    't:block:block_rq_complete "sectors=%d", args->nr_sector': (
        f'tracepoint:block:block_rq_complete {{ {ROW}block_rq_complete sectors=%d\\n", pid, tid, comm, '
        "args->nr_sector); }"
    ),
    'p::f(struct timespec *ts) "%lld ns 100%%", ts->tv_nsec': (
        f'kprobe:f {{ {ROW}f                %lld ns 100%%\\n", pid, tid, comm, ((struct timespec *)arg0)->tv_nsec); }}'
    ),
    'u:pthread:pthread_create "%U %K", arg3, arg2': (
        f'usdt:pthread:pthread_create {{ {ROW}pthread_create   %s %s\\n", pid, tid, comm, usym(arg2), ksym(arg1)); }}'
    ),
    'u:pthread:libpthread:pthread_create (arg4 != 0) "%d", arg4': (
        f'usdt:pthread:libpthread:pthread_create {{ if ((arg3 != 0)) {{ {ROW}libpthread:pthread_create %d\\n", '
        "pid, tid, comm, arg3); } }"
    ),
    'r:c:fopen (STRCMP("a b", $entry(arg1)))': (
        f"{DEPTH}uprobe:c:fopen {{ $depth = @depth0[curtask] + 1; @depth0[curtask] = $depth; "
        "@entry0_0[curtask, $depth] = arg0; }\n"
        "uretprobe:c:fopen { $depth = @depth0[curtask]; if (has_key(@entry0_0, (curtask, $depth))) { "
        'if (((str(@entry0_0[curtask, $depth]) == "a b"))) { '
        f'{ROW}fopen            \\n", pid, tid, comm); }} delete(@entry0_0, (curtask, $depth)); }} {LEFT} }}'
    ),
}  # fmt: skip
#: What is refused: the message, and what the caret is under.
REFUSED = {
    "p:c:f(double x):float:x": ("probes read no floating-point numbers, as float: give a type of integers", "f"),
    "p:c:f():u32,double:arg1,arg2": ("probes read no floating-point numbers, as double", "d"),
    "x:y:z()": ("write p:FILE:FUNCTION()", "x"),
    "p::f(": ("this ( is not closed", "("),
    "p::f():int": ("write TYPE:EXPRESSION", "i"),
    "p::f():int,int:1": ("2 types, and 1 expression", "i"),
    "p::f():int:": ("a type or an expression is empty", "i"),
    "p::f():int:1:": ("this filter is empty", ""),
    "p::f(int):int:1": ("a parameter is a type and a name, and 'int' is not", "i"),
    "p::():int:1": ("name the entry of a function", "("),
    "t::f():int:1": ("name the tracepoint's category", "f"),
    "r::f(int a):int:a": ("a is gone when the function returns: $entry(a)", "a"),
    "p::f():int:$latency": ("$latency and $entry(x) are for the return of a function", "$"),
    "t:a:b():int:$entry(c)": ("$latency and $entry(x) are for the return of a function", "$"),
    "t:a:b():int:$retval": ("$retval is for the return of a function; of a system call write args->ret", "$"),
    "t:a:b():int:1:retval < 0": ("retval is for the return of a function; of a system call write args->ret", "r"),
    "u:a:b():int:retval": ("retval is for the return of a function: r:FILE:FUNCTION", "r"),
    "p:c:f():int:$retval": ("$retval is not known at the entry: write r:c:f", "$"),
    'r:c:f(int a):int:$entry(STRCMP("a", $entry(a)))': ("are for the return of a function", "$"),
    "r:c:f():int:$entry($retval)": ("$retval is not known at the entry", "$"),
    "r:c:f(int a):int:$entry($entry(a))": ("are for the return of a function", "$"),
    "r:c:f():int:$entry": ("$entry takes a value in parentheses: $entry(x)", "$"),
    "p:c:f():u16:ntohs": ("ntohs takes a value in parentheses: ntohs(x)", "n"),
    'p::f():u8:1:STRCMP("a", arg1, 2)': ('write STRCMP("text", value)', "S"),
    "p::f():int:$nothing": ("$nothing is none of $retval", "$"),
    'p::f():int:STRCMP(1, "a")': ('write STRCMP("text", value)', "S"),
    'p::f():char*:"open': ("this quotation is not closed", '"'),
    "p:c:f():int:1:1:1": ("nothing stands behind the filter", ":"),
    "p:c:f(a):int:1": ("a parameter is a type and a name, and 'a' is not", "a"),
    "p:c:f():int:arg0": ("arg0 is no argument: they are counted from 1, arg1 to arg12", "a"),
    "p:c:f():int:arg13": ("arg13 is no argument", "a"),
    "t:a:b():int:arg1": ("arg1 is for functions: write args->FIELD", "a"),
    "t:a:b(int c):int:c": ("c is for functions: write args->FIELD", "c"),
    "p:c:f():int:@x": ("@ begins a map, which no specification has", "@"),
    "p:c:f():int:1 // 2": ("// begins a comment", "/"),
    "p:c:f():int:1:1 /* 2": ("/* begins a comment", "/"),
    "p:c:f():int:1; 2": ("; begins a statement", ";"),
    "r::f():int:$retvall": ("there is no $retvall (did you mean $retval?)", "$"),
    "p::f():char*:$com": ("there is no $com (did you mean $comm?)", "$"),
    "p:c:f():int:$1": ("$ is none of $retval", "$"),
    "p:c:f():int:$$": ("$ is none of $retval", "$"),
    "r:c:f():int:$entry()": ("$entry takes one value: $entry(x)", "$"),
    "r:c:f():int:$entry(a, b)": ("$entry takes one value: $entry(x)", "$"),
    "p:c:f():int:ntohs()": ("ntohs takes one value: ntohs(x)", "n"),
    "p:c:f g:int:1": ("'f g' is no name of the entry of a function", "g"),
    "p::f():int:)": ("this ) closes nothing", ")"),
}
REFUSED_TRACES = {
    't:sched_switch "x"': ("a tracepoint has a category before its name: write t:CATEGORY:sched_switch", "s"),
    't:a:b (args->flags = 3) "x"': ("= assigns, which no specification does: to compare, write `==`", "="),
    'p:c:f (arg1 += 3) "x"': ("= assigns", "="),
    """p:c:f (arg1 == 'ab') "x\"""": ("'ab' is not one character of ASCII", "'"),
    'r:c:kill (retval < 0) "x"': ("retval < 0: nothing tells the type of what kill returns", "r"),
    'r:c:kill (retval != -1) "x"': ("write (int)retval != -1, or (long)retval != -1", "r"),
    'r:c:kill ($entry(arg2) > 0 && $retval == -1) "x"': ("write (int)$retval == -1", "$"),
    'r:c:kill (retval > 0) "x"': ("write (int)retval > 0, or (long)retval > 0 if it returns 64 bits", "r"),
    'r:c:kill (0 <= $retval) "x"': ("write (int)$retval, or (long)$retval if", "$"),
    'r:c:kil* "%d", retval >> 1': ("retval >> 1: nothing tells the type of what kil* returns", "r"),
    'r:c:kill "%d", retval / 2': ("write (int)retval / 2", "r"),
    'r:c:kill "%d", 100 % retval': ("write (int)retval, or", "r"),
    't:a:b ($retval < 0) "%d", args->ret': ("of a system call write args->ret", "$"),
    "c:malloc %d bytes, arg1": ('a format of trace stands in double quotes, its values behind it: "%d", arg1', "%"),
    "c:malloc size: %d, arg1": ("this is no probe; a format of trace stands in double quotes", "c"),
    "c:malloc '%d', arg1": ("a format of trace stands in double quotes", "'"),
    "c:malloc (arg1>3) %d bytes": ("the predicate has ended before this; a format of trace", "%"),
    "c:malloc (arg1>3)  '%d', arg1": ("the predicate has ended before this; a format of trace", "'"),
    "f\t%d": ("'f %d' is no name of the entry of a function", "%"),
    "f ()": ("this predicate is empty", "("),
    "u:a:b:c:d": ("a USDT probe is written u:FILE:NAME() or u:FILE:PROVIDER:NAME()", "d"),
    'f "%d %f", arg1, arg2': ("%f is none here", "%"),
    'f "%d"': ("no value is left for %d", '"'),
    'f "x", arg1': ("nothing prints this value", "a"),
    'f "%d",': ("an expression is missing here", ""),
    'f "%d" arg1': ("behind the text in quotes come values, each after a comma", '"'),
    "x:a:b": ("'x' is no kind of probe", "x"),
}


def script_of(text):
    """The script of a specification of either command."""
    if text in REFUSED or (text not in REFUSED_TRACES and '"' not in text):
        return distribution_script([("count", parse_distribution(text))])
    return trace_script([parse_trace(text)], TraceOptions())


def probes(script):
    """A script without its settings and its heading."""
    return "".join(
        line for line in script.splitlines(keepends=True) if not line.startswith(("config", "BEGIN"))
    ).rstrip("\n")


@pytest.mark.parametrize("text", COUNTED)
def test_counts(text):
    """A specification is a probe that counts by its values; what is made parses."""
    script = distribution_script([("count", parse_distribution(text))])
    assert probes(script) == COUNTED[text]
    parse(script, "<argdist>")


#: Words of bcc's at a return: what a script has for each.
WORDS = {
    "$retval": "retval",
    "retval": "retval",
    "$latency": "(nsecs - @entry0_0[curtask, $depth])",
    "$entry(arg1)": "@entry0_0[curtask, $depth]",
    **{word: current for word, current in CURRENT.items() if word not in ("$comm", "$COMM")},
}
#: What may stand around them: a value, and a condition that begins with it.
AROUND = ["{}", "(int){}", "!{}", "({} > 3 && $tgid > 1)", "-{}", "(({}))", "{} == {}", "1 + {}"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("around", AROUND)
def test_a_word_means_the_same_everywhere(word, around):
    """In predicates, filters, and values of either command; what is made parses."""
    given, meant = around.replace("{}", word), around.replace("{}", WORDS[word]).replace("$tgid", "pid")
    trace = trace_script([parse_trace(f'r::f ({given}) "%d", {given}')], TraceOptions())
    assert f"if (({meant}))" in trace
    assert f"comm, {meant});" in trace
    counted = distribution_script([("count", parse_distribution(f"r::f():u64:0+{given}:{given}"))])
    assert f"if (({meant}))" in counted
    assert f"@spec0[((u64)(0+{meant}))]" in counted
    alone = trace_script([parse_trace(f"r::f ({given})")], TraceOptions())
    assert f"if (({meant}))" in alone
    for script in (trace, counted, alone):
        parse(script, "<script>")


@pytest.mark.parametrize("type_", ["int", "s32", "char*", "void *", "struct file *"])
@pytest.mark.parametrize("word", ["$retval", "retval"])
def test_a_result_has_the_type_that_is_said(type_, word):
    """That which the specification says, or which the function has; an address of characters is a number."""
    cast = {"char*": "", "void *": ""}.get(type_, f"({type_})")
    meant = f"({cast}retval)" if cast else "retval"
    said = parse_distribution(f"r:c:f():{type_}:{word}:!{word} || {word} == 1")
    assert f"if ((!{meant} || {meant} == 1))" in distribution_script([("count", said)])
    told = parse_distribution(f"r:c:f():u64:{word}+1:{word} < 0")
    script = distribution_script([("count", told)], result=lambda _: "int32")
    assert "if ((((int32)retval) < 0)) { @spec0[((u64)(((int32)retval)+1))]" in script
    script = trace_script([parse_trace(f'r:c:f ({word} < 0) "%d", {word}')], TraceOptions(), lambda _: "int32")
    assert "if ((((int32)retval) < 0))" in script
    assert "comm, ((int32)retval));" in script


@pytest.mark.parametrize("word", ["$retval", "retval"])
def test_a_result_that_points_to_a_struct_has_members(word):
    """Of the struct that the function's type names; alone it is a number."""
    text = f'r:c:f ({word} ->id > 3) "%d %s %x", {word}->id, {word}->name, {word}'
    script = trace_script([parse_trace(text)], TraceOptions(), lambda _: "struct req *")
    assert "if (((struct req *)retval ->id > 3))" in script.replace("((struct req *)retval)", "(struct req *)retval")
    assert "((struct req *)retval)->id, str(((struct req *)retval)->name), retval);" in script


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("void", "f returns nothing: its type is void"),
        ("float", "f returns a float, and probes read what is returned as an integer or a pointer"),
        ("struct pt", "f returns a struct pt, and probes read"),
    ],
)
@pytest.mark.parametrize("text", ["r:c:f():u64:$retval", "r:c:f():u64:1:$retval > 2", "r:c:f()"])
def test_a_result_that_no_register_of_integers_has_is_refused(type_, message, text):
    """Whatever type the specification says."""
    with pytest.raises(InvalidValue, match=message):
        distribution_script([("count", parse_distribution(text))], result=lambda _: type_)


def test_a_character_is_its_number():
    """Those of ASCII, with C's escapes; no others."""
    script = trace_script(
        [parse_trace(r"""c:f (arg1 == 'a' || arg1 == '\n' || arg1 == '\x41') "%d", '\0'""")], TraceOptions()
    )
    assert "if ((arg0 == 97 || arg0 == 10 || arg0 == 65))" in script
    assert "comm, 0);" in script


def test_a_struct_by_value_is_counted_by_its_content():
    """Its type needs no cast, which would be one to its address."""
    spec = parse_distribution("p:c:f(struct req *r):struct inner,u32:r->in,r->id")
    assert "@spec0[((struct req *)arg0)->in, ((u32)(((struct req *)arg0)->id))]" in distribution_script(
        [("count", spec)]
    )


def test_the_type_of_a_result_is_asked_for_where_it_is_used():
    """Of a function whose result a specification uses, and of no pattern."""
    asked = []

    def result(probe):
        asked.append(probe.name)
        return ""

    traces = ["r:c:g ($latency > 1)", "r:c:h (retval == 1)", 'r:c:i* "%d", retval', "p:c:j"]
    trace_script([parse_trace(text) for text in traces], TraceOptions(), result)
    assert asked == ["h"]


@pytest.mark.parametrize("text", TRACED)
def test_lines(text):
    """A specification is a probe that prints a line; what is made parses."""
    script = trace_script([parse_trace(text)], TraceOptions())
    assert probes(script) == TRACED[text]
    parse(script, "<trace>")


def test_several_and_options():
    """Each has a map of its own; a process is chosen before the filter."""
    specs = [
        ("hist", parse_distribution("r::f():int:$retval:$retval>0#bytes")),
        ("count", parse_distribution("p::g()")),
    ]
    assert specs[0][1].label == "bytes"
    assert probes(distribution_script(specs, pid=7)).splitlines() == [
        "kretprobe:f { if (pid == 7 && (((int)retval)>0)) { @spec0 = hist(((int)(retval))); } }",
        "kprobe:g { if (pid == 7) { @spec1 = count(); } }",
    ]
    options = TraceOptions(pid=7, tid=8, time=True, cpu=True, kernel_stack=True, user_stack=True, most=3, strings=200)
    script = trace_script([parse_trace("f")], options)
    assert probes(script) == (
        'kprobe:f { if (pid == 7 && tid == 8) { printf("%-8s %-3d %-7d %-7d %-15s f                \\n", '
        'strftime("%H:%M:%S", nsecs), cpu, pid, tid, comm); printf("%s\\n", kstack); printf("%s\\n", ustack); '
        "@events++; if (@events == 3) { exit(); } } }"
    )
    heading = "TIME     CPU PID     TID     COMM            FUNC             -"
    assert f'BEGIN {{ printf("{heading}\\n"); }}' in script
    pattern = trace_script([parse_trace("c:f* (1)"), parse_trace("c:a%d")], TraceOptions())
    assert '%-16s \\n", pid, tid, comm, func);' in pattern
    assert 'uprobe:c:"a%d" { printf("%-7d %-7d %-15s a%%d              \\n", pid, tid, comm); }' in pattern
    assert "max_strlen = 200" in script
    options = TraceOptions(uid=9, name='a"\\', but=10, since=True, marks=True)
    assert probes(trace_script([parse_trace("f")], options)) == (
        r'kprobe:f { if (uid == 9 && pid != 10 && strcontains(comm, "a\"\\")) { printf("%4d.%06d %-7d %-7d %-15s '
        r'f                \x1f\n", elapsed / 1000000000, elapsed % 1000000000 / 1000, pid, tid, comm); } }'
    )
    unix = trace_script([parse_trace("f")], TraceOptions(since=True, unix=True))
    assert 'strftime("%s.%f", nsecs), pid' in unix
    parse(unix, "<trace>")
    parse(script, "<trace>")
    assert "if (pid == 7 && tid == 8) { @spec1" in distribution_script(specs, pid=7, tid=8)
    spec = parse_distribution("r:c:read()")
    assert "@spec0 = hist(((int)(retval)));" in distribution_script([("hist", spec)])
    with pytest.raises(InvalidValue, match="-H takes one expression"):
        distribution_script([("hist", parse_distribution("p::f()"))])


@pytest.mark.parametrize(
    "text",
    [
        'r:c:f(int m) ($entry(m) == 1) "%d m", >m',
        'r:c:f(int m) ($entry(m) == >m) "%d", m',
        "r:c:f(int m):int,int:$entry(m),>m:$entry(m)",
        "r:c:f(int m):int:$entry(m):$entry(m) == >m",
        "r:c:u16(u16 m):u16:$entry(m):>m",
        "t:a:b(int a):int:>a",
        "r:c:f(void (*a)(int), int b):int,int:1,>b:b",
        "p:c:f(int a):int:a:a == >$retval#$retval",
        'p:c:f "$retval %d %d", arg1, arg2 + >retval',
    ],
)
def test_a_word_that_is_there_twice_is_told_where_it_is_wrong(text):
    """And not where it is right, before or behind."""
    place, text = text.index(">"), text.replace(">", "")
    with pytest.raises(InvalidValue) as caught:
        script_of(text)
    assert str(caught.value).split("\n")[1:] == [f"    {text}", f"    {' ' * place}^"]


@pytest.mark.parametrize("text", [*REFUSED, *REFUSED_TRACES])
def test_what_is_no_specification_is_refused_at_its_place(text):
    """The caret stands below the part at fault; at the end below nothing."""
    message, below = (REFUSED | REFUSED_TRACES)[text]
    with pytest.raises(InvalidValue) as caught:
        script_of(text)
    told, shown, caret = str(caught.value).split("\n")
    assert message in told
    assert shown == f"    {text}".replace("\t", " ")
    assert shown[len(caret) - 1 :][:1] == below


def test_a_pattern_is_named_in_each_line():
    """Of functions by the function, of other probes by the probe."""
    for text, named in (("c:a*", "func"), ("r:c:a*", "func"), ("u:c:p:*", "probe"), ("t:sched:*", "probe")):
        script = trace_script([parse_trace(text)], TraceOptions())
        assert f'%-16s \\n", pid, tid, comm, {named});' in script
