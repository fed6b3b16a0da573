"""The MLP autoencoder on one packed vector of weights: forward, and one fused step of SGD.

The packed layout
-----------------
For each layer in turn its matrix, then its bias. The first matrix is stored (out, in), the others
(in, out), because ReLU leaves about half of the units at zero and in these orders a zero unit's
row of weights is never touched: not read going forward, and neither read nor written going back.

With one window at a time every gradient is an outer product, δ⊗x, so one pass over a row of
weights both propagates δ and applies the update.

Layers of `PAD` units and more are padded with zeros to a multiple of it, so that rows of weights
begin at cache lines and leave no remainder to vector instructions: worth a quarter to a third of
the step. Zeros stay zero: a padded unit is never active, and its weights are never touched.

Places in the packed vectors are sums of offsets, cast to unsigned where they are used: Numba checks
a signed index for being negative, and a loop with that check in it does not vectorise. Slices
would do as well but cost nanoseconds each, which a small model notices.
"""

from __future__ import annotations

import numpy as np

from newnormal.kernels.compiled import inlined, inner, uncounted
from newnormal.kernels.memory import prefetch_line
from newnormal.types import Floats32, Ints

PAD = 16  # float32 values in a cache line, and in the widest vector registers
NOTHING_AHEAD = 2  # the length of a list for `request` without any
_at = np.uint64


@uncounted
def forward(weights: Floats32, widths: Ints, units: Floats32, active: Ints, ahead: Ints) -> None:
    """Fill `units`, all layers' outputs one after the other, from the input in its first part.

    `active` is scratch, as long as the widest layer; `ahead` is what to `request` meanwhile.
    """
    layers = len(widths) - 1
    matrix = 0  # where the layer's weights begin
    below = 0  # where its input begins in `units`
    for layer in range(layers):
        inputs, outputs = widths[layer], widths[layer + 1]
        above = below + inputs
        bias = matrix + inputs * outputs
        for i in range(outputs):
            units[_at(above + i)] = weights[_at(bias + i)]
        if layer == 0:
            _add_dots(weights, matrix, units, below, inputs, above, outputs, ahead)
        else:
            count = _nonzero(units, below, inputs, active)
            _add_rows(weights, matrix, units, below, above, outputs, active, count, ahead)
        if layer < layers - 1:
            for i in range(outputs):
                units[_at(above + i)] = max(units[_at(above + i)], np.float32(0))
        matrix = bias + outputs
        below = above


@inlined
def request(ahead: Ints) -> None:
    """Ask for the next few cache lines of a list to be ready soon: those of the next stream.

    The list has two numbers before the addresses: where it goes on, and how many to ask for at a
    time. The processor has room for a few dozen such requests, and more would wait for each other:
    so kernels ask for a few, again and again, while they do something else.
    """
    start = ahead[0]
    stop = min(start + ahead[1], len(ahead))
    for i in range(start, stop):
        prefetch_line(ahead[i])
    ahead[0] = stop


@inlined
def _nonzero(values: Floats32, start: int, length: int, found: Ints) -> int:
    """List which of `length` values from `start` on are not 0, and return how many there are.

    There is no branch: which units are at zero changes with every window, and each wrong guess of
    the processor costs as much as a row of a small matrix.
    """
    count = 0
    for i in range(length):
        found[_at(count)] = i
        count += values[_at(start + i)] != 0
    return count


# Four rows at a time in the next two: one read of x (or one read and write of y) then serves four
# rows, which is worth a quarter of the forward pass; pairing rows in `descend` is worth a
# fiftieth of the step, and is left out.


@inlined
def _add_dots(
    weights: Floats32,
    matrix: int,
    units: Floats32,
    below: int,
    n: int,
    above: int,
    outputs: int,
    ahead: Ints,
) -> None:
    """Add matrix @ x to y, with the matrix (out, in) packed."""
    blocked = outputs // 4 * 4
    for i in range(0, blocked, 4):
        row0 = matrix + i * n
        row1, row2, row3 = row0 + n, row0 + 2 * n, row0 + 3 * n
        total0 = total1 = total2 = total3 = np.float32(0)
        request(ahead)
        for j in range(n):
            x = units[_at(below + j)]
            total0 += weights[_at(row0 + j)] * x
            total1 += weights[_at(row1 + j)] * x
            total2 += weights[_at(row2 + j)] * x
            total3 += weights[_at(row3 + j)] * x
        units[_at(above + i)] += total0
        units[_at(above + i + 1)] += total1
        units[_at(above + i + 2)] += total2
        units[_at(above + i + 3)] += total3
    for i in range(blocked, outputs):
        row = matrix + i * n
        total = np.float32(0)
        for j in range(n):
            total += weights[_at(row + j)] * units[_at(below + j)]
        units[_at(above + i)] += total


@inlined
def _add_rows(
    weights: Floats32,
    matrix: int,
    units: Floats32,
    below: int,
    above: int,
    n: int,
    active: Ints,
    count: int,
    ahead: Ints,
) -> None:
    """Add x @ matrix to y, with the matrix (in, out) packed, over the active units of x alone."""
    blocked = count // 4 * 4
    for k in range(0, blocked, 4):
        j0, j1, j2, j3 = active[k], active[k + 1], active[k + 2], active[k + 3]
        row0, row1, row2, row3 = matrix + j0 * n, matrix + j1 * n, matrix + j2 * n, matrix + j3 * n
        x0, x1 = units[_at(below + j0)], units[_at(below + j1)]
        x2, x3 = units[_at(below + j2)], units[_at(below + j3)]
        request(ahead)
        for i in range(n):
            units[_at(above + i)] += (
                x0 * weights[_at(row0 + i)]
                + x1 * weights[_at(row1 + i)]
                + x2 * weights[_at(row2 + i)]
                + x3 * weights[_at(row3 + i)]
            )
    for k in range(blocked, count):
        row = matrix + active[k] * n
        x0 = units[_at(below + active[k])]
        for i in range(n):
            units[_at(above + i)] += x0 * weights[_at(row + i)]


@inner
def descend(
    weights: Floats32, widths: Ints, units: Floats32, deltas: Floats32, lr: np.float32, active: Ints
) -> float:
    """Take one SGD step in place, and return a bound on how far any weight moved.

    `units` is what `forward` left; the last part of `deltas`, which is laid out like `units`,
    holds the loss's gradient with respect to the reconstruction; the rest is scratch, and so is
    `active`.
    """
    layers = len(widths) - 1
    matrix = len(weights)
    above = len(units) - widths[layers]  # where the layer's output begins in `units`
    moved = 0.0
    for layer in range(layers - 1, -1, -1):
        inputs, outputs = widths[layer], widths[layer + 1]
        matrix -= (inputs + 1) * outputs
        bias = matrix + inputs * outputs
        below = above - inputs
        steepness = np.float32(0)
        for i in range(outputs):
            delta = deltas[_at(above + i)]
            steepness += abs(delta)
            weights[_at(bias + i)] -= lr * delta
        reach = np.float32(1)  # the bias's input
        for j in range(inputs):
            reach += abs(units[_at(below + j)])
        if layer == 0:
            for k in range(_nonzero(deltas, above, outputs, active)):
                row = matrix + active[k] * inputs
                pull = lr * deltas[_at(above + active[k])]
                for j in range(inputs):
                    weights[_at(row + j)] -= pull * units[_at(below + j)]
        else:
            for j in range(inputs):  # a unit at zero passes nothing back through its ReLU
                deltas[_at(below + j)] = 0
            for k in range(_nonzero(units, below, inputs, active)):
                j = active[k]
                row = matrix + j * outputs
                pull = lr * units[_at(below + j)]
                total = np.float32(0)
                for i in range(outputs):
                    delta = deltas[_at(above + i)]
                    total += weights[_at(row + i)] * delta
                    weights[_at(row + i)] -= pull * delta
                deltas[_at(below + j)] = total
        # |lr·δᵢ·xⱼ| ≤ lr·Σ|δ|·Σ|x|: loose, cheap, and NaN or infinite if anything in it is.
        moved += float(lr) * float(steepness) * float(reach)
        above = below
    return moved
