"""All rows of `bench operators`, by the part of it in which they are."""

from __future__ import annotations

from relayvm.cli.bench.rows import elementwise, movement, picking, reductions, sampled, windows
from relayvm.cli.bench.rows.row import Row

PARTS: dict[str, tuple[Row, ...]] = {
    "elementwise": elementwise.ELEMENTWISE,
    "reductions": reductions.REDUCTIONS,
    "movement": movement.MOVEMENT,
    "convolutions": windows.CONVOLUTIONS,
    "pooling": windows.POOLING,
    "resampling": windows.RESAMPLING,
    "layers": windows.LAYERS,
    "order": picking.ORDER,
    "places": picking.PLACES,
    "products": picking.PRODUCTS,
    "vision": sampled.VISION,
    "signals": sampled.SIGNALS,
    "numbers": sampled.NUMBERS,
    "quantized": sampled.QUANTIZED,
    "aims": picking.AIMS,
}
