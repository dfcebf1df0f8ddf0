"""Control-flow graphs: order, dominators and loops, against definitions applied by force."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pyebpf.compiler.graph import dominators, find_loops, predecessors, reverse_post_order

GRAPHS = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=2).map(tuple), min_size=n, max_size=n)
)


def reached(graph: dict[int, tuple[int, ...]], start: int, without: int | None = None) -> set[int]:
    seen: set[int] = set()
    work = [start]
    while work:
        number = work.pop()
        if number not in seen and number != without:
            seen.add(number)
            work.extend(graph[number])
    return seen


@given(GRAPHS)
def test_order_and_dominators(edges: list[tuple[int, ...]]) -> None:
    """What is reached is ordered once, the entry first; a dominator is what cannot be gone around."""
    graph = dict(enumerate(edges))
    order = reverse_post_order(0, graph)
    assert order[0] == 0
    assert sorted(order) == sorted(reached(graph, 0))
    graph = {number: graph[number] for number in order}
    parent = dominators(order, predecessors(graph))
    for number in order[1:]:
        strict = {d for d in order if d != number and number not in reached(graph, 0, without=d)}
        chain = []
        step = number
        while step != parent[step]:
            step = parent[step]
            chain.append(step)
        assert set(chain) == strict
        assert order.index(parent[number]) < order.index(number)


def test_nested_loops() -> None:
    """Depth counts the loops around a block; a loop's body is what comes back to its header."""
    graph = {0: (1,), 1: (2, 6), 2: (3,), 3: (4, 5), 4: (3,), 5: (1,), 6: ()}
    order = reverse_post_order(0, graph)
    loops = find_loops(order, predecessors(graph))
    assert {header: sorted(body) for header, body in loops.bodies.items()} == {1: [1, 2, 3, 4, 5], 3: [3, 4]}
    assert loops.depth == {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 1, 6: 0}


def test_depth_of_recursion_is_no_limit() -> None:
    """A chain of 50,000 blocks is ordered without recursion."""
    graph = {n: (n + 1,) for n in range(50_000)} | {50_000: ()}
    order = reverse_post_order(0, graph)
    assert order == list(range(50_001))
    assert dominators(order, predecessors(graph))[50_000] == 49_999
