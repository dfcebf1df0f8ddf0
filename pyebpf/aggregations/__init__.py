"""Aggregations: histograms, counters, totals, extremes and statistics, kept in per-CPU maps by the programs themselves.

Each kind has one file: its layout, what adding a value does in a program, and how user space puts the processors'
values together. `declared` has the objects that people use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.lazy import lazy_names

if TYPE_CHECKING:
    from pyebpf.aggregations.declared import (
        KeyedAggregation,
        KeyedCounter,
        KeyedExtreme,
        KeyedHistogram,
        KeyedStats,
        KeyedTotal,
        SingleAggregation,
        SingleCounter,
        SingleExtreme,
        SingleHistogram,
        SingleStats,
        SingleTotal,
    )
    from pyebpf.aggregations.entity import Aggregation
    from pyebpf.aggregations.factories import (
        counter,
        linear_hist,
        log2_hist,
        log_linear_hist,
        maximum,
        minimum,
        stats,
        total,
    )
    from pyebpf.aggregations.statistics import Stats

__all__ = [
    "Aggregation",
    "KeyedAggregation",
    "KeyedCounter",
    "KeyedExtreme",
    "KeyedHistogram",
    "KeyedStats",
    "KeyedTotal",
    "SingleAggregation",
    "SingleCounter",
    "SingleExtreme",
    "SingleHistogram",
    "SingleStats",
    "SingleTotal",
    "Stats",
    "counter",
    "linear_hist",
    "log2_hist",
    "log_linear_hist",
    "maximum",
    "minimum",
    "stats",
    "total",
]

__getattr__ = lazy_names(
    __name__,
    {
        "declared": (
            "KeyedAggregation",
            "KeyedCounter",
            "KeyedExtreme",
            "KeyedHistogram",
            "KeyedStats",
            "KeyedTotal",
            "SingleAggregation",
            "SingleCounter",
            "SingleExtreme",
            "SingleHistogram",
            "SingleStats",
            "SingleTotal",
        ),
        "entity": ("Aggregation",),
        "factories": (
            "counter",
            "linear_hist",
            "log2_hist",
            "log_linear_hist",
            "maximum",
            "minimum",
            "stats",
            "total",
        ),
        "statistics": ("Stats",),
    },
)
