"""Probes at returns of functions whose stacks a runtime walks: the warning, and what becomes of the program."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyebpf.script import Script
from tests.support.command import running
from tests.support.native import build_native
from tests.support.needs import needs
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.any_kernel
CPP = """
extern "C" __attribute__((noinline)) int thrower(int n) { if (n > 2) throw n; return n; }
extern "C" __attribute__((noinline)) int passed(int n) { return thrower(n) + 1; }
int main() {
    try { passed(1); passed(3); } catch (int n) { return n == 3 ? 7 : 1; }
    return 2;
}
"""
C = "__attribute__((noinline)) int passed(int n) { return n + 1; }\nint main(void) { return passed(6); }\n"
#: Its goroutine's stack grows while `main.work` runs.
GO = """
package main

//go:noinline
func deep(n int) int {
	var room [256]byte
	room[n%256] = 1
	if n == 0 {
		return 0
	}
	return deep(n-1) + int(room[n%256])
}

//go:noinline
func work(n int) int { return deep(n) }

func main() {
	done := make(chan int)
	go func() { done <- work(2000) }()
	println(<-done)
}
"""
HAZARDS = {"c++": "a C++ exception that passes a function", "go": "its Go runtime ends a program"}


def warned(place: str, program: Path) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """The warnings of a probe, and the program's end while it is attached."""
    with Script(f"{place} {{ @ = count(); }}") as script:
        done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert script["@"].only() >= 1
        return list(script.warnings), done


def test_an_exception_of_cpp(tmp_path: Path) -> None:
    """It ends the program where it passes a probed return, which is told; a probe at the entry changes nothing."""
    needs("command:g++")
    (tmp_path / "thrower.cc").write_text(CPP)
    program = tmp_path / "thrower"
    subprocess.run(["g++", "-O0", "-o", program, tmp_path / "thrower.cc"], check=True, timeout=600)
    warnings, done = warned(f"uretprobe:{program}:passed", program)
    assert done.returncode == -signal.SIGABRT
    assert warnings == [f"{program}: {HAZARDS['c++']} with a probed return ends the program: probe entries alone"]
    with Script(f"uprobe:{program}:passed {{ @ = count(); }}") as script:
        assert subprocess.run([program], check=False, timeout=PATIENCE).returncode == 7
        assert script["@"].only() == 2
        assert list(script.warnings) == []
    with running("funclatency", f"{program}:passed") as tool:
        tool.stop()
    assert tool.err.count(HAZARDS["c++"]) == 1


def test_a_stack_of_go_that_grows(tmp_path: Path) -> None:
    """The runtime finds no caller of the function whose return is probed."""
    needs("command:go")
    (tmp_path / "main.go").write_text(GO)
    program = tmp_path / "grows"
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "CGO_ENABLED": "0", "GO111MODULE": "off"}
    command = ["go", "build", "-o", program, tmp_path / "main.go"]
    subprocess.run(command, check=True, timeout=600, env=environment)
    assert subprocess.run([program], check=False, timeout=PATIENCE).returncode == 0
    with Script(f"uretprobe:{program}:main.work {{ @ = count(); }}") as script:
        done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=PATIENCE)
        (warning,) = script.warnings
    assert (done.returncode, "unexpected return pc" in done.stderr) == (2, True)
    assert warning.startswith(f"{program}: {HAZARDS['go']}")


def test_programs_without_a_runtime_that_walks(tmp_path: Path) -> None:
    """C has nothing to tell; a symbol of Rust's handlers has, once for all probes of a file."""
    program = build_native(C, tmp_path / "plain")
    assert warned(f"uretprobe:{program}:passed", program)[0] == []
    rust = build_native(f"{C}void rust_eh_personality(void) {{}}\n", tmp_path / "rust")
    warnings, done = warned(f"uretprobe:{rust}:passed, uretprobe:{rust}:main", rust)
    assert done.returncode == 7
    assert [line.partition(" that passes")[0] for line in warnings] == [f"{rust}: a panic of Rust"]
