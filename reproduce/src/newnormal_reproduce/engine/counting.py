"""What a pass through a network costs: multiply-adds, and memory for what the layers give."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from newnormal.models.deep.base import DeepModel, WindowBatch
from newnormal.models.deep.thoc import DilatedGRU


class Counted(NamedTuple):
    """Multiply-adds for one window, and the bytes its layers give out."""

    linear: int  # of linear layers alone, as the paper counts
    forward: int  # of every matrix product and convolution, recurrent ones included
    adapting: int  # judging, then the forward and backward pass of the learning step
    outputs: int  # bytes that layers with parameters give out in judging


def count(model: DeepModel) -> Counted:
    """Count what judging one window takes, and learning from it.

    Additions of biases, activations, norms, softmax and the score itself are left out, as is
    usual. Every product is counted each time it is done: USAD's second pass through its encoder,
    too.
    """
    batch = _window(model)
    seen = _Seen()
    with seen.watching(model.network), torch.no_grad():
        model.judge(batch)
    recurrent = seen.recurrent
    with _in_the_open():
        with _products() as judged, torch.no_grad():
            model.judge(batch)
        with _products() as learned, seen.watching(model.network):
            parameters = list(model.network.parameters())
            torch.autograd.grad(model.errors(batch).sum(), parameters, allow_unused=True)
    forward = judged.multiply_adds + recurrent
    # Back through a compiled recurrence there are as many products again as forward.
    adapting = forward + learned.multiply_adds + 2 * (seen.recurrent - recurrent)
    return Counted(seen.linear, forward, adapting, seen.outputs)


def judging(model: DeepModel) -> Callable[[], None]:
    """Return a call that judges one window with the network alone."""
    batch = _window(model)

    def judge() -> None:
        with torch.no_grad():
            model.judge(batch)

    return judge


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep PyTorch to one thread: two never help at batch 1."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Seen:
    """What hooks on layers saw in the first pass, and compiled recurrent products in all."""

    def __init__(self) -> None:
        self.linear = 0
        self.outputs = 0
        self.recurrent = 0
        self._passes = 0

    @contextmanager
    def watching(self, network: nn.Module) -> Iterator[None]:
        first = self._passes == 0
        self._passes += 1
        handles = []
        for module in network.modules():
            if isinstance(module, DilatedGRU):
                handles.append(module.given.register_forward_hook(self._recur(module)))
            if first and not [*module.children()] and [*module.parameters()]:
                handles.append(module.register_forward_hook(self._look))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _look(self, module: nn.Module, inputs: Any, output: Any) -> None:
        del inputs
        given = output if isinstance(output, Tensor) else output[0]
        self.outputs += given.numel() * given.element_size()
        if isinstance(module, nn.Linear):
            self.linear += given.numel() * module.in_features

    def _recur(self, layer: DilatedGRU) -> Callable[[nn.Module, Any, Tensor], None]:
        def look(module: nn.Module, inputs: Any, output: Tensor) -> None:
            del module, inputs
            self.recurrent += output.numel() // output.shape[-1] * layer.weight.numel()

        return look


class _Products:
    multiply_adds = 0


@contextmanager
def _products() -> Iterator[_Products]:
    """Count the products that PyTorch does."""
    products = _Products()
    with FlopCounterMode(display=False) as counter:
        yield products
    products.multiply_adds = counter.get_total_flops() // 2


@contextmanager
def _in_the_open() -> Iterator[None]:
    """Do without oneDNN, whose LSTM is one call in which no product is seen."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TF32 acceleration")  # raised by setting the flag
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def _window(model: DeepModel) -> WindowBatch:
    shape = (1, model.window, model.channels)
    values = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return WindowBatch(values, torch.ones(shape))
