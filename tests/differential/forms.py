"""What stands in programs with each form that the generator knows: a regular expression a line."""

from __future__ import annotations

__all__ = ["FORMS"]

FORMS = {
    "arrays": r"""
\bthree\[
\bfive\[
\bseven\[
\bsixteen\[
\bhundred\[
""",
    "arrays in records": r"""
held\[.*\]\.fa\[
held\[.*\]\.fb\[
held\[.*\]\.fc\[
held\[.*\]\.fd\[
held\[.*\]\.fe\[
held\[.*\]\.ff\[
w\d+\.fa\[
w\d+\.fb\[
w\d+\.fc\[
w\d+\.fd\[
w\d+\.fe\[
w\d+\.ff\[
""",
    "arrays of a context": r"""
ctx\.words\[
ctx\.octets\[
ctx\.shorts\[
ctx\.longs\[
ctx\.wides\[
ctx\.a \S*=\s
ctx\.b
ctx\.name
ctx\.name =
== c\d+\(ctx,
""",
    "bounded numbers": r"""
\[\(\w+ % \d+\)\]
\[\(~?\w+ & \d+\)\]
 >> \d+\)\]
u(8|16|32)\(\S+\) >> \d
 // \d+\)\]
[<>=] \w+\)\]
\[min\(
\[max\(min\(
\[abs\(
\[\(\w+ if \w+ < \d+ else
if 0 <= s64\(\w+\) <=? \d+ else
\.bit_length\(\)
\.bit_count\(\)
divmod\(
\[g\d+\(
\*\* 2\)
\(2 \*\*\s
 // \(.* \| [145]\)\)
 % \(1 \+\s
\[\(\d+ -\s
\(-\(-s64\(
\[K\d+\[
\[\(.* and .*\)\]
\[s8\(
 << \d\)\]
\[i\d+\]
\[j\d+\]
if \d+ > j\d+:
if 0 <= j\d+ < \d+:
if not \(.*j\d+
\[-1\]
bool\(
% \(\w+\(.*\) \| 1\)
""",
    "loops over arrays": r"""
in enumerate\(\S*\.\w+\):
for i\d+v in\s
, -[12]\):
range\(\(
(sum|max|min|any|all)\(s64\(.* for i in
""",
    "tables": r"""
^K\d+ = \(
^K\d+ = \[
^K\d+ = b['\"]
^K\d+ = \(\(
^K\d+ = \{\d
^K\d+ = \{\(
^K\d+ = \{'
K\d+\.get\(
 is None:
 is not None:
in K\d+\)
in enumerate\(K
in zip\(K
for each in K
e\d+ = K\d+\[
K\d+\[i\d+\]
seen\[K\d+\[
""",
    "deep trees": r"""
(\n    elif .*\n        .*){60}
(\n        case \d+:\n.*){60}
( [-+^|] \w+){100}
(\(([\w.\[\]]+ \S )?){30}
[-~]{200}
(not ){20}
( if [^\n]{1,60} else \(*[\w.\[\]]+\)*){25}
((min|max|abs|u64|s64)\(){20}
h\d+\((h\d+\(){20}
( (<|<=|!=) \w+){10}
( (and|or) s64\([^\n]{1,60}){10}
""",
    "records": r"""
(r\d+), (r\d+) = \2, \1
(w\d+), (w\d+) = \2, \1
p\d+\.first, p\d+\.second =\s
p\d+\.(first|second)\.\w+ =\s
kept\[.*\] =\s
kept\.add\(
kept\.pop\(
kept\.get\(
in kept\)
del kept
c\d+\(r\d+,\s
twos\[.*\] = p
held\[.*\] = w
(r\d+\.\w+), (r\d+\.\w+) = \2, \1
held\[.*\] = held\[
(five\[.*\]), (five\[.*\]) = \2, \1
""",
    "texts": r"""
name == '
name != '
name (not )?in \('
startswith\('
startswith\(\(
endswith\(
' (not )?in texts
\.name\[:\d+\] ==
\.name\[\d+:\d+\]
\.name\[\d+:\]\s
len\(
not texts
\.name\[\(.*\] == '.'
\(texts.*, s64\(.*\)\) == \('
\) (not )?in \(\('
\('\w*' if .* else '\w*'\) ==
z\d+ =\s
texts\[.*\]\.name =\s
seen\[.*\] \+=\s
z\d+ = .* if .* else\s
""",
}
