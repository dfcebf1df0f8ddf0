"""Return values of tc programs (linux/pkt_cls.h). TCX_NEXT, TCX_PASS, TCX_DROP and TCX_REDIRECT are four of them."""

from __future__ import annotations

TC_ACT_UNSPEC = -1
TC_ACT_OK = 0
TC_ACT_RECLASSIFY = 1
TC_ACT_SHOT = 2
TC_ACT_PIPE = 3
TC_ACT_STOLEN = 4
TC_ACT_QUEUED = 5
TC_ACT_REPEAT = 6
TC_ACT_REDIRECT = 7
TC_ACT_TRAP = 8
