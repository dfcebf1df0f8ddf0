"""The hour that `.ci/run` may take: what the supervisor does with commands that do not end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.vm import deadline
from tests.vm.deadline import LATE, descendants

CHECKOUT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="probe platform:linux: no")


def supervised(script: str, *options: str, limit: float = 30) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.vm.deadline", f"--limit={limit}", *options, "--", "sh", "-c", script]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)


def gone(pid: int) -> bool:
    """Whether a process is no more, or a zombie that its parent has not asked about."""
    process = deadline._process(pid)
    return process is None or process.state == "Z"


def test_output_and_exit_status_are_the_commands():
    """Both streams in order, status 3; death by a signal as a shell tells it."""
    run = supervised("echo one; echo two >&2; exit 3")
    assert (run.returncode, run.stdout) == (3, "one\ntwo\n")
    assert supervised("kill -9 $$").returncode == 128 + signal.SIGKILL


def test_a_command_that_cannot_be_started():
    """One line, and the status that shells give."""
    command = [sys.executable, "-m", "tests.vm.deadline", "--limit=5", "--", "/no/such/program"]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (127, "== deadline: /no/such/program: No such file or directory\n")


def test_at_the_limit_everything_that_was_started_is_ended():
    """A child that ignores SIGTERM, and one in a session of its own that holds the output open."""
    began = time.monotonic()
    run = supervised(
        "trap '' TERM; setsid sh -c 'echo $$; exec sleep 100' & sleep 0.3; echo $$; while :; do sleep 1; done",
        "--grace=0.5",
        limit=1,
    )
    assert time.monotonic() - began < 15
    assert run.returncode == LATE
    first, second, said = run.stdout.splitlines()
    assert said.startswith("== deadline: not finished after 1 s, ending it: sh -c trap")
    assert gone(int(first))
    assert gone(int(second))


def test_what_a_finished_command_leaves_behind_is_ended_too():
    """A daemon does not keep anybody waiting."""
    began = time.monotonic()
    run = supervised("setsid sleep 100 & echo $!; exit 0")
    assert time.monotonic() - began < 15
    assert run.returncode == 0
    assert gone(int(run.stdout))


def test_sigterm_ends_it_at_once():
    """As a limit does; the status tells the signal."""
    command = [sys.executable, "-m", "tests.vm.deadline", "--limit=60", "--", "sh", "-c", "echo $$; sleep 100"]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as stream:
        child = int(stream.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert gone(child)


def test_nobody_waits_for_a_process_that_no_signal_ends(tmp_path):
    """Processes in state D ignore SIGKILL; here os.kill does nothing for a child that goes on."""
    script = (
        "import os, sys\n"
        "from tests.vm import deadline\n"
        "deadline.os.kill = deadline.os.killpg = lambda pid, number: None\n"
        "os._exit(deadline.run(['sh', '-c', 'echo $$; exec sleep 20'], 0.5, 0.2))\n"
    )
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60
    )
    assert time.monotonic() - began < 10
    child, *_, said = run.stdout.splitlines()
    os.kill(int(child), signal.SIGKILL)
    assert run.returncode == LATE
    assert said == f"== deadline: left alone, since no signal ends them: {child} (sleep, state S)"


def test_descendants_are_found_through_names_of_any_kind(tmp_path):
    """`(` and `)` in a process's name do not move the columns."""
    program = tmp_path / "a) S (1"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "20"]) as process:
        try:
            found = {each.pid: each for each in descendants(os.getpid())}
            assert found[process.pid].parent == os.getpid()
        finally:
            process.kill()


def ci(tmp_path: Path, steps: str, limit: int) -> tuple[int, list[str], float]:
    fake = tmp_path / "steps"
    fake.write_text("#!/bin/sh\nresults=$1\n" + steps)
    fake.chmod(0o755)
    results = tmp_path / "results"
    environment = os.environ | {
        "CI_STEPS": str(fake),
        "CI_LIMIT": str(limit),
        "CI_GRACE": "1",
        "CI_RESULTS": str(results),
    }
    began = time.monotonic()
    run = subprocess.run(
        [CHECKOUT / ".ci/run"], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return run.returncode, run.stdout.splitlines(), time.monotonic() - began


def test_the_summary_is_printed_whatever_hangs(tmp_path):
    """Steps cut off, results missing: counted as failures, in the last line, within the limit."""
    status, lines, took = ci(
        tmp_path,
        'echo "begin packages" >>"$results/steps"; echo "end 0 packages" >>"$results/steps"\n'
        'echo "begin tests" >>"$results/steps"; trap "" TERM; sleep 100\n',
        limit=1,
    )
    assert status != 0
    assert took < 20
    assert "trouble: step tests: not finished" in lines
    assert lines[-1].startswith("0 passed, ")
    assert int(lines[-1].split()[2]) == 4  # the step, two of the host, the list of machines
    _, lines, _ = ci(tmp_path, 'printf "6.1\\n7.3\\n" >"$results/machines"\n', limit=20)
    assert len([line for line in lines if line.startswith("trouble: no results in")]) == 4


def test_steps_that_fail_are_counted(tmp_path):
    """One that tests tell of themselves is not; without any note nothing counts as passed."""
    status, lines, _ = ci(
        tmp_path,
        'printf "begin a\\nend 2 a\\nbegin tests\\nend 1 tests\\nbegin b\\nend 0 b\\n" >"$results/steps"\n',
        limit=20,
    )
    assert status != 0
    assert [line for line in lines if ": step " in line] == ["trouble: step a: status 2"]
    status, lines, _ = ci(tmp_path, "rm $results/steps\n", limit=20)
    assert any(line.startswith("trouble: no step was begun") for line in lines)
