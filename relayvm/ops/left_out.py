"""Names of operators of the original that are none here, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_SCHEDULES = "schedules of kernels choose the algorithm; `{}` is the operator"
_LAYOUTS = "kernels choose how operands lie in memory; `{}` is the operator"
_VENDOR = "runs on one vendor's accelerator alone"
_MACHINE = "bytecode of the machine has instructions for it"
_MARKS = "marks of the original's own passes; nothing remains of them in a program"

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "annotation.bitpack_end": "marks for one vendor's accelerator",
        "annotation.bitpack_start": "marks for one vendor's accelerator",
        "annotation.compiler_begin": _MARKS,
        "annotation.compiler_end": _MARKS,
        "annotation.with_funcid": _MARKS,
        "auto_scheduler_layout_transform": _LAYOUTS.format("layout_transform"),
        "call_lowered": _MACHINE,
        "contrib.ethosu.binary_elementwise": _VENDOR,
        "contrib.ethosu.conv2d": _VENDOR,
        "contrib.ethosu.depthwise_conv2d": _VENDOR,
        "contrib.ethosu.identity": _VENDOR,
        "contrib.ethosu.pooling": _VENDOR,
        "contrib.ethosu.unary_elementwise": _VENDOR,
        "debug": "calls into Python; `relayvm run --trace` shows values of a run",
        "memory.alloc_storage": _MACHINE,
        "memory.alloc_tensor": _MACHINE,
        "memory.kill": _MACHINE,
        "meta_schedule_layout_transform": _LAYOUTS.format("layout_transform"),
        "nn.contrib_conv2d_NCHWc": _LAYOUTS.format("nn.conv2d"),
        "nn.contrib_conv2d_gemm_weight_transform": _SCHEDULES.format("nn.conv2d"),
        "nn.contrib_conv2d_gemm_without_weight_transform": _SCHEDULES.format("nn.conv2d"),
        "nn.contrib_conv2d_winograd_nnpack_weight_transform": _SCHEDULES.format("nn.conv2d"),
        "nn.contrib_conv2d_winograd_weight_transform": _SCHEDULES.format("nn.conv2d"),
        "nn.contrib_conv2d_winograd_without_weight_transform": _SCHEDULES.format("nn.conv2d"),
        "nn.contrib_conv3d_winograd_weight_transform": _SCHEDULES.format("nn.conv3d"),
        "nn.contrib_conv3d_winograd_without_weight_transform": _SCHEDULES.format("nn.conv3d"),
        "nn.contrib_depthwise_conv2d_NCHWc": _LAYOUTS.format("nn.conv2d"),
        "nn.internal.sparse_dense_padded": _SCHEDULES.format("nn.sparse_dense"),
        "parser.MetaRef": "the parser reads `meta[...]` itself",
        "relay.op.annotation.simulated_quantize": _MARKS,
        "torch_op": "calls a function that only PyTorch knows",
        "vm.invoke_tvm_op": _MACHINE,
        "vm.reshape_tensor": _MACHINE,
        "vm.shape_of": _MACHINE,
    }
)
