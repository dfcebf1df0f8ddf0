"""Who runs which tests in one run of CI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.vm import plan, report, shards
from tests.vm.plan import Wishes

PLAIN = ["5.10", "6.1", "6.12", "6.18", "7.3"]
FOLDER = "tests/kernel"


@pytest.fixture(autouse=True)
def _a_second_a_test(monkeypatch, tmp_path):
    monkeypatch.setattr(shards, "SECONDS", tmp_path / "seconds.json")
    monkeypatch.setattr(shards, "UNMEASURED", 1)
    monkeypatch.setattr(shards, "TOOLS", 10_000)
    monkeypatch.setattr(shards, "REST", 10_000)
    monkeypatch.setattr(shards, "PART", 10_000)


def wishes(files):
    """As many tests as the dictionary says, by file; and one that each kernel runs, and one that none has to."""
    names = [f"{file}::test_{number}" for file, count in files.items() for number in range(count)]
    made = [Wishes(name, frozenset(), (), ()) for name in names]
    every = Wishes(f"{FOLDER}/test_link.py", frozenset({"every_kernel"}), (), ())
    return [*made, every, Wishes(f"{FOLDER}/test_pure.py", frozenset({"any_kernel"}), (), ())]


def files(count):
    return {f"{FOLDER}/test_{number}.py": 1 + number * 7 % 13 for number in range(count)}


def test_each_file_is_dealt_once_and_shares_are_alike():
    """No kernel has more than the largest file's tests above another; every file runs somewhere."""
    made = files(97)
    shares = shards.deal(wishes(made), PLAIN, "commit", [])
    dealt = Counter(file for share in shares.values() for file in share)
    assert dealt.keys() == made.keys()
    assert set(dealt.values()) == {1}
    loads = [sum(made[file] for file in share) for share in shares.values()]
    assert max(loads) - min(loads) <= max(made.values())


def test_the_rest_is_bounded(monkeypatch):
    """A run takes no longer where there are more tests: another commit deals others. Tools that changed come first."""
    monkeypatch.setattr(shards, "RECENT_SECONDS", 0)
    monkeypatch.setattr(shards, "TOOLS", 200)
    monkeypatch.setattr(shards, "REST", 100)
    made = files(97)
    tools = {f"{FOLDER}/test_tool_{number}.py": 20 for number in range(23)}
    met = set()
    changed = [*tools][:3]
    for key in range(40):
        shares = shards.deal(wishes({**made, **tools}), PLAIN, str(key), changed)
        dealt = {file for share in shares.values() for file in share}
        assert 100 - max(made.values()) < sum(made.get(file, 0) for file in dealt) <= 100
        assert sum(tools.get(file, 0) for file in dealt) == 200
        assert {*changed} <= dealt
        met |= dealt
    assert met == made.keys() | tools.keys()


def test_a_file_that_takes_long_is_dealt_in_parts(monkeypatch):
    """Each of its tests is in one of them; no part takes much longer than others; who has a part runs its tests."""
    monkeypatch.setattr(shards, "PART", 50)
    large = f"{FOLDER}/test_large.py"
    made = wishes({large: 1000, f"{FOLDER}/test_small.py": 50})
    shares = shards.deal(made, PLAIN, "commit", [])
    dealt = [part for share in shares.values() for part in share if part.startswith(large)]
    assert sorted(dealt) == sorted(f"{large}@{number}/20" for number in range(20))
    assert {part for part in shards.weights(made) if not part.startswith(large)} == {f"{FOLDER}/test_small.py"}
    assert all(25 < seconds < 80 for seconds in shards.weights(made).values())
    runs = [plan.Run("6.12", "", "not any_kernel", 1, whole=shares[name]) for name in PLAIN]
    tests = [wish for wish in made if wish.file == large]
    assert [sum(run.takes(wish) for run in runs) for wish in tests] == [1] * 1000
    assert len({share for share in shares.values() if any(large in part for part in share)}) == len(PLAIN)


def test_a_tool_that_the_host_ran_whole_is_dealt_as_others_are(monkeypatch):
    """A file with a skipped test was not seen whole."""
    monkeypatch.setattr(shards, "REST", 0)
    lines = [("a", "passed"), ("b", "passed"), ("b", "skipped"), ("c", "failed"), ("a", "passed")]
    tests = tuple(report.Test(f"{FOLDER}/test_tool_{name}.py::test_{name}", outcome) for name, outcome in lines)
    seen = shards.passed(report.Report(tests))
    assert seen == {f"{FOLDER}/test_tool_a.py"}
    tools = {f"{FOLDER}/test_tool_{name}.py": 3 for name in "abc"}
    shares = shards.deal(wishes(tools), PLAIN, "commit", [], seen=seen)
    assert {file for share in shares.values() for file in share} == tools.keys() - seen


def test_files_are_weighed_by_what_their_tests_took(tmp_path):
    """The mean of those that passed; a file that was not measured by UNMEASURED."""
    took = [("a", "passed", 2.0), ("a", "passed", 4.0), ("a", "failed", 300.0), ("b", "skipped", 0.1)]
    tests = tuple(report.Test(f"{FOLDER}/test_{name}.py::test", outcome, "", took) for name, outcome, took in took)
    assert shards.measured([report.Report(tests)]) == {"test_a": 3.0}
    (tmp_path / "seconds.json").write_text(json.dumps({"test_a": 3.0}))
    made = {f"{FOLDER}/test_{name}.py": 5 for name in "ab"}
    assert shards.weights(wishes(made)) == {f"{FOLDER}/test_a.py": 15.0, f"{FOLDER}/test_b.py": 5}


def test_arm64_runs_what_changed_and_no_rest():
    """Its machines are slower than the others."""
    made = files(31)
    changed = [f"{FOLDER}/test_3.py"]
    shares = shards.deal(wishes(made), ["6.1", "6.12-arm64"], "commit", changed)
    assert shares["6.12-arm64"] == tuple(changed)
    assert set(shares["6.1"]) == made.keys()


def test_the_commit_decides():
    """The same for the same commit, another for another; in twenty commits a file meets every kernel."""
    made = wishes(files(31))
    assert shards.deal(made, PLAIN, "a", []) == shards.deal(made, PLAIN, "a", [])
    met = {
        name
        for key in range(20)
        for name, share in shards.deal(made, PLAIN, str(key), []).items()
        if made[0].file in share
    }
    assert met == set(PLAIN)
    assert len({shards.turn(str(key)) for key in range(40)}) == 4
    assert {shards.turn(str(key)) for key in range(40)} <= set(plan.RUNS)


def test_exact_tests_of_tools_go_where_all_attaches():
    """Not to a kernel that lacks what most of them use."""
    tools = {f"{FOLDER}/test_tool_{number}.py": 3 for number in range(23)}
    shares = shards.deal(wishes({**tools, **files(50)}), PLAIN, "commit", [])
    assert {name for name, share in shares.items() if tools.keys() & set(share)} == {"6.1", "6.12"}
    assert tools.keys() <= {file for share in shares.values() for file in share}
    # Where those are not asked for, anyone else runs them.
    assert tools.keys() <= set(shards.deal(wishes(tools), ["5.10"], "commit", [])["5.10"])


def test_what_changed_runs_everywhere_while_there_is_room(monkeypatch):
    """The newest first; a file that is too large for the room that is left is dealt as others are."""
    monkeypatch.setattr(shards, "RECENT_SECONDS", 10)
    made = {f"{FOLDER}/test_{name}.py": count for name, count in (("new", 4), ("large", 7), ("old", 6), ("other", 2))}
    changed = [f"{FOLDER}/test_{name}.py" for name in ("new", "gone", "large", "old")]
    shares = shards.deal(wishes(made), PLAIN, "commit", changed)
    times = Counter(file.removeprefix(f"{FOLDER}/test_") for share in shares.values() for file in share)
    assert times == {"new.py": 5, "old.py": 5, "large.py": 1, "other.py": 1}


def test_changed_files_are_read_from_git(tmp_path, monkeypatch):
    """Of the newest commits, the newest first; a tool stands for its test; what is gone, or no test, is not named."""
    monkeypatch.setattr(shards, "CHECKOUT", tmp_path)
    assert (shards.commit(), shards.changed()) == ("", [])
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments):
        name = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, env=environment, stdout=subprocess.DEVNULL)

    git("init", "--quiet")
    for changed in (
        ("tests/kernel/test_a.py", "tests/kernel/test_tool_x.py", "tests/kernel/test_gone.py"),
        ("tests/kernel/rig.py", "pyebpf/programs/x.py", "README.md"),
        ("tests/kernel/test_b.py",),
    ):
        for path in changed:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text("".join(changed))
        git("add", ".")
        git("commit", "--quiet", "-m", "m")
    (tmp_path / "tests/kernel/test_gone.py").unlink()
    assert shards.changed() == [f"{FOLDER}/test_{name}.py" for name in ("b", "tool_x", "a")]
    assert shards.changed(1) == [f"{FOLDER}/test_b.py"]
    assert len(shards.commit()) == 40


def test_pytest_takes_the_share(tmp_path):
    """All tests of the files named and those of others that every kernel runs; the plan counts the same."""
    body = "import pytest\n\ndef test_own(): pass\n\n@pytest.mark.every_kernel\ndef test_every(): pass\n"
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(body)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  every_kernel: m\n")
    record = tmp_path / "record"
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.vm.record"),
            *("--record", str(record), "--whole", "test_a.py,test_c.py", "--rootdir", str(tmp_path), str(tmp_path)),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(shards.CHECKOUT)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert [test.id for test in report.read(record).tests] == [
        "test_a.py::test_own",
        "test_a.py::test_every",
        "test_b.py::test_every",
    ]
    run = plan.Run("6.12", "", "not any_kernel", 1, whole=("test_a.py",))
    marks = {"own": frozenset(), "every": frozenset({"every_kernel"}), "pure": frozenset({"any_kernel"})}
    taken = [
        (file, name)
        for file in ("test_a.py", "test_b.py")
        for name, each in marks.items()
        if run.takes(Wishes(f"{file}::test_{name}", each, (), ()))
    ]
    assert taken == [("test_a.py", "own"), ("test_a.py", "every"), ("test_b.py", "every")]


def test_a_machine_without_results_is_trouble(tmp_path):
    """As is a run that did not come so far as to list its machines."""
    (listed,) = report.read_machines(tmp_path)
    assert listed.failed == 1
    (tmp_path / "machines").write_text("6.1\n7.3\n")
    (tmp_path / "6.1").mkdir()
    lines = [
        {"kernel": "6.1.0", "tests": 1},
        {"test": "t", "outcome": "passed", "reason": "", "seconds": 0},
        {"end": 0},
    ]
    (tmp_path / "6.1" / "record").write_text("\n".join(map(json.dumps, lines)))
    assert [(each.passed, each.failed) for each in report.read_machines(tmp_path)] == [(1, 0), (0, 1)]
