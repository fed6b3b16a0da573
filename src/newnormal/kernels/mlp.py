"""The MLP autoencoder on one packed vector of weights: forward, and one fused step of SGD.

The packed layout
-----------------
For each layer in turn its matrix, then its bias. The first matrix is stored (out, in), the others
(in, out), because ReLU leaves about half of the units at zero and in these orders a zero unit's
row of weights is never touched: not read going forward, and neither read nor written going back.

With one window at a time every gradient is an outer product, δ⊗x, so one pass over a row of
weights both propagates δ and applies the update.
"""

from __future__ import annotations

import numpy as np

from newnormal.kernels.compiled import compiled
from newnormal.types import Floats32, Ints

__all__ = ["descend", "forward"]


@compiled
def forward(weights: Floats32, widths: Ints, units: Floats32) -> None:
    """Fill `units`, all layers' outputs one after the other, from the input in its first part."""
    layers = len(widths) - 1
    at = 0  # where the layer's weights begin
    below = 0  # where its input begins in `units`
    for layer in range(layers):
        inputs, outputs = widths[layer], widths[layer + 1]
        x = units[below : below + inputs]
        y = units[below + inputs : below + inputs + outputs]
        matrix = weights[at : at + inputs * outputs]
        bias = weights[at + inputs * outputs : at + (inputs + 1) * outputs]
        for i in range(outputs):
            y[i] = bias[i]
        if layer == 0:
            _add_dots(matrix, x, y)
        else:
            _add_rows(matrix, x, y)
        if layer < layers - 1:
            for i in range(outputs):
                y[i] = max(y[i], np.float32(0))
        at += (inputs + 1) * outputs
        below += inputs


# Four rows at a time in the next two: one read of x (or one read and write of y) then serves four
# rows, which is worth a quarter of the forward pass; blocking `descend` too is worth under a tenth
# of the step, and is left out.


@compiled
def _add_dots(matrix: Floats32, x: Floats32, y: Floats32) -> None:
    """Add matrix @ x to y, with the matrix (out, in) packed."""
    n = len(x)
    blocked = len(y) // 4 * 4
    for i in range(0, blocked, 4):
        row0 = matrix[i * n : (i + 1) * n]
        row1 = matrix[(i + 1) * n : (i + 2) * n]
        row2 = matrix[(i + 2) * n : (i + 3) * n]
        row3 = matrix[(i + 3) * n : (i + 4) * n]
        total0 = total1 = total2 = total3 = np.float32(0)
        for j in range(n):
            total0 += row0[j] * x[j]
            total1 += row1[j] * x[j]
            total2 += row2[j] * x[j]
            total3 += row3[j] * x[j]
        y[i] += total0
        y[i + 1] += total1
        y[i + 2] += total2
        y[i + 3] += total3
    for i in range(blocked, len(y)):
        row = matrix[i * n : (i + 1) * n]
        total = np.float32(0)
        for j in range(n):
            total += row[j] * x[j]
        y[i] += total


@compiled
def _add_rows(matrix: Floats32, x: Floats32, y: Floats32) -> None:
    """Add x @ matrix to y, with the matrix (in, out) packed, passing over the zeros of x."""
    n = len(y)
    waiting = 0  # rows 0, 1 and 2 of a block found so far
    j0 = j1 = j2 = 0
    for j in range(len(x)):
        if x[j] == 0:
            continue
        if waiting == 0:
            j0 = j
        elif waiting == 1:
            j1 = j
        elif waiting == 2:
            j2 = j
        else:
            row0 = matrix[j0 * n : (j0 + 1) * n]
            row1 = matrix[j1 * n : (j1 + 1) * n]
            row2 = matrix[j2 * n : (j2 + 1) * n]
            row3 = matrix[j * n : (j + 1) * n]
            for i in range(n):
                y[i] += x[j0] * row0[i] + x[j1] * row1[i] + x[j2] * row2[i] + x[j] * row3[i]
            waiting = -1
        waiting += 1
    for k in range(waiting):
        j = j0 if k == 0 else (j1 if k == 1 else j2)
        row = matrix[j * n : (j + 1) * n]
        for i in range(n):
            y[i] += x[j] * row[i]


@compiled
def descend(
    weights: Floats32, widths: Ints, units: Floats32, deltas: Floats32, lr: np.float32
) -> float:
    """Take one SGD step in place, and return a bound on how far any weight moved.

    `units` is what `forward` left; the last part of `deltas`, which is laid out like `units`,
    holds the loss's gradient with respect to the reconstruction; the rest is scratch.
    """
    layers = len(widths) - 1
    at = len(weights)
    above = len(units) - widths[layers]  # where the layer's output begins in `units`
    moved = 0.0
    for layer in range(layers - 1, -1, -1):
        inputs, outputs = widths[layer], widths[layer + 1]
        at -= (inputs + 1) * outputs
        x = units[above - inputs : above]
        dx = deltas[above - inputs : above]
        dy = deltas[above : above + outputs]
        matrix = weights[at : at + inputs * outputs]
        bias = weights[at + inputs * outputs : at + (inputs + 1) * outputs]
        steepness = np.float32(0)
        for i in range(outputs):
            steepness += abs(dy[i])
            bias[i] -= lr * dy[i]
        reach = np.float32(1)  # the bias's input
        for j in range(inputs):
            reach += abs(x[j])
        if layer == 0:
            for i in range(outputs):
                if dy[i] != 0:
                    row = matrix[i * inputs : (i + 1) * inputs]
                    pull = lr * dy[i]
                    for j in range(inputs):
                        row[j] -= pull * x[j]
        else:
            for j in range(inputs):
                unit = x[j]
                dx[j] = 0
                if unit != 0:  # a unit at zero passes nothing back through its ReLU
                    row = matrix[j * outputs : (j + 1) * outputs]
                    pull = lr * unit
                    total = np.float32(0)
                    for i in range(outputs):
                        total += row[i] * dy[i]
                        row[i] -= pull * dy[i]
                    dx[j] = total
        # |lr·δᵢ·xⱼ| ≤ lr·Σ|δ|·Σ|x|: loose, cheap, and NaN or infinite if anything in it is.
        moved += float(lr) * float(steepness) * float(reach)
        above -= inputs
    return moved
