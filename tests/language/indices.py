"""Every form of an index that is known while compiling to lie in 0 to 3, over the arguments of `numbers`."""

from __future__ import annotations

__all__ = ["FORMS", "LARGER", "OUTSIDE"]

#: What the forms call.
OUTSIDE = """
def inside(x):
    if x < 0 or x > 3:
        return 1
    return x

@bpf.subprogram
def quarter(x: s64) -> u8:
    return x & 3
"""

FORMS = [
    *("s % 3", "s % 4", "u % 3", "u % 4", "w % 3", "c % 3", "k % 3", "h % 3", "b % 4", "i % 3"),
    *("s & 3", "~s & 3", "b & 3", "(s & 3) ^ 1", "(s % 3) ^ 1", "(s & 1) | (u & 2)", "(s % 2) | 2"),
    *("(s & 7) >> 1", "u >> 62", "c >> 6", "k >> 14", "w >> 30", "u8(s) >> 6", "u32(s) >> 30", "u % 100 >> 5"),
    *("(s & 7) // 2", "u // 2**62", "c // 64", "c // 85", "(s & 255) // 85", "u % 100 // 32", "k // 20000"),
    *("u // 0x5555555555555556", "u8(s) // 85", "u32(s) // 0x50000000", "(s % 64) // 21", "s % 60 // 15 % 3"),
    *("(s & 3) // (c | 1)", "(u & 3) // (v | 1)", "(s & 15) // (k & 3 | 4)", "(s & 3) >> t", "(s % 3) >> t"),
    *("(s & 7) % (c & 3 | 1)", "u % (c & 3 | 1)", "(s & 3) % (c | 1)", "(u & 3) % v", "u % (1 + t % 3)"),
    *("s // 7 % 3", "u // 7 % 3", "(s // 7) % 4", "(u % 7) // 2", "(u % 1000000007) % 3", "(u >> 3) % 3"),
    *("(s ^ u) % 3", "(s * u) % 3", "(s + u) % 3", "(s - t) % 3", "3 - (s & 3)", "3 - s % 3", "-(-(s & 3))"),
    *("2 * (s & 1) + (u & 1)", "(s % 2) * 2 + u % 2", "(s % 2) * 3", "(s % 3) + 1", "(s % 3) * 5 // 4"),
    *("min(u, 3)", "min(s & 255, 3)", "max(min(s, 3), 0)", "min(abs(s % 4), 3)", "abs((s & 3) - 3)"),
    *("min(s % 9, 3)", "min(u // 3, 3)", "max(s % 3, u % 4)", "s > 5", "(s > 5) + (t > 3) + (u > 9)", "q + 2"),
    *("3 if s > 5 else 1", "(s % 3 if t > 5 else s % 4)", "s if 0 <= s < 4 else 0", "u if u < 4 else u % 3"),
    *("u8(s % 3)", "s32(s % 3)", "u64(s % 3)", "s64(u % 3)", "inside(s)", "inside(s) % 3", "quarter(s) & 3"),
]

#: Those of more than four elements, by length.
LARGER = {
    5: ["s % 5", "u % 5", "c // 60", "u % 300 >> 6"],
    7: ["s % 7", "u % 7", "(u & 7) * 3 // 4", "6 - u % 7"],
    8: ["(c & 7) // (k | 1)", "(u & 7) // (v | 1)", "u % 7", "u // 7 % 7"],
    10: ["u % 10", "s % 10", "u % 1000 // 100", "s % 7 + u % 4"],
    16: ["u % 100 >> 4", "u % 255 // 16", "s % 13", "u >> 60"],
}
