"""Outputs of bcc's tools and of pyebpf's: the same counts read the same."""

from __future__ import annotations

import pytest

from tests.peers.bcc.outputs import counts_of


@pytest.mark.parametrize(
    ("form", "theirs", "ours", "expected"),
    [
        (
            "buckets",
            "     size   : count     distribution\n   0 -> 1   : 0   |    |\n  4096 -> 8191   : 8   |****|\n",
            "t:x\n[4K, 8K)               8 |@@@@@@@|\n",
            {"4096 -> 8191": 8},
        ),
        ("buckets", "  0 -> 1  : 3  |**|\n", "[1]    3 |@@|\n", {"0 -> 1": 3}),
        (
            "values",
            "\tCOUNT      EVENT\n\t7          args->rwbs = b'WS'\n\t2          $retval = -111\n",
            "[00:00:01]\n[WS]: 7\n[-111]: 2\n",
            {"WS": 7, "-111": 2},
        ),
        ("counts", "\nFUNC   COUNT\nb'tcp_ack'  23\nDetaching...\n", "FUNC  COUNT\ntcp_ack   23\n", {"tcp_ack": 23}),
        (
            "lines",
            "PID  TID  COMM  FUNC  -\n0   0   swapper/1   block_rq_complete dev 8 type b'R' error -5\n",
            "PID  TID  COMM  FUNC  -\n0   0   swapper/1   block_rq_complete dev 8 type R error -5\n",
            {"dev 8 type R error -5": 1},
        ),
        (
            "stacks",
            "  b'blk_mq_start_request'\n  b'__blk_mq_issue'\n    30\n\n",
            "    blk_mq_start_request\n    __blk_mq_issue\n        30\n\n",
            {"blk_mq_start_request": 30},
        ),
    ],
)
def test_both_read_the_same(form, theirs, ours, expected):
    """A table, a histogram, lines, stacks."""
    assert counts_of(form, theirs) == counts_of(form, ours) == expected
