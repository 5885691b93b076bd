"""Builds ONNX models with onnx.helper and runs them in ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from .cases import Build, declared_shape

DEFAULT_OPSET = 21
# onnx 1.20 knows IR versions that ONNX Runtime does not; what opset 25 needs is less.
_MAX_IR_VERSION = 11


class OnnxBuild(Build):
    """A graph in the making: `input`, `constant` and `node` give names of values."""

    def __init__(self, name, opset):
        super().__init__(name)
        self.opset = opset
        self.inputs = []
        self.initializers = []
        self.nodes = []
        self.rewrite = None  # what another program makes of the model: a function of it
        self.by_item = False  # run as a served model: expected is what each item gives alone

    def input(self, *shapes, dtype="f4", low=-1, high=1, values=()):
        """A graph input. One data set for each shape, or for each array of `values`; extents that differ between
        them are symbolic."""
        name, arrays = self._feed(shapes, values, dtype=dtype, low=low, high=high)
        shape = [
            f"{name}_{axis}" if extent is None else extent
            for axis, extent in enumerate(declared_shape(arrays))
        ]
        self.inputs.append(
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), shape
            )
        )
        return name

    def constant(self, values, dtype=None):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def integers(self, values):
        return self.constant(values, np.int64)

    def weights(self, *shape, dtype="f4", low=-1, high=1):
        return self.constant(self.random(shape, dtype, low, high))

    def node(self, op, *inputs, outputs=1, **attributes):
        """Adds a node; "" is an absent input. Returns its output's name, or their list if there are several.
        `outputs` may also list which of them there are: [True, False, True]."""
        present = outputs if isinstance(outputs, list) else [True] * outputs
        names = [
            f"{op.lower()}{len(self.nodes)}_{i}" if is_there else ""
            for i, is_there in enumerate(present)
        ]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        names = [name for name in names if name]
        return names[0] if len(names) == 1 else names

    def model(self, results, types=None):
        """types: element types of the results, where they are known."""
        types = types or [TensorProto.UNDEFINED] * len(results)
        outputs = [
            (
                helper.make_tensor_value_info(name, dtype, None)
                if dtype
                else helper.make_empty_tensor_value_info(name)
            )
            for name, dtype in zip(results, types)
        ]
        graph = helper.make_graph(
            self.nodes, "conformance", self.inputs, outputs, self.initializers
        )
        imports = [helper.make_opsetid("", self.opset)]
        domains = {node.domain for node in self.nodes} - {""}
        version = _MAX_IR_VERSION
        if self.opset <= onnx.defs.onnx_opset_version():  # beyond, onnx 1.20 does not know
            version = min(helper.find_min_ir_version_for(imports), version)
        imports += [helper.make_opsetid(domain, 1) for domain in sorted(domains)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=version)
        return self.rewrite(model) if self.rewrite else model


def subgraph(name, inputs, outputs, nodes):
    """The body of a loop or branch. inputs, outputs: (name, NumPy type or None, shape or None)."""

    def info(value):
        value_name, dtype, shape = value
        if dtype is None:
            return helper.make_empty_tensor_value_info(value_name)
        return helper.make_tensor_value_info(
            value_name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
        )

    return helper.make_graph(
        nodes, name, [info(value) for value in inputs], [info(value) for value in outputs]
    )


def operators_of(model):
    """The operators of a model, bodies included; those of other domains with the domain's name before them."""

    def walk(nodes):
        for node in nodes:
            yield (
                f"{node.domain}.{node.op_type}"
                if node.domain not in ("", "ai.onnx")
                else node.op_type
            )
            for attribute in node.attribute:
                for graph in [attribute.g, *attribute.graphs]:
                    yield from walk(graph.node)

    return sorted(
        {
            *walk(model.graph.node),
            *(op for function in model.functions for op in walk(function.node)),
        }
    )


def _session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # Its rewrites are not what is compared with.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _run_by_item(session, results, inputs):
    """The outputs of each item (an index of the first axis) computed alone, joined."""
    count = next(iter(inputs.values())).shape[0]
    alone = [
        session.run(results, {name: array[i : i + 1] for name, array in inputs.items()})
        for i in range(count)
    ]
    return [np.concatenate(arrays) for arrays in zip(*alone)]


def save_arrays(path, arrays):
    """.npz in C order, bf16 as f32: what the runner reads."""
    arrays = {name: np.array(array, order="C") for name, array in arrays.items()}
    np.savez(
        path,
        **{
            name: array.astype(np.float32) if array.dtype.name == "bfloat16" else array
            for name, array in arrays.items()
        },
    )


def save(case_name, function, arguments, folder):
    """Builds a case and writes it; returns its line of the manifest (name, tolerance, operators)."""
    arguments = dict(arguments)
    build = OnnxBuild(case_name, arguments.pop("opset", DEFAULT_OPSET))
    results = function(build, **arguments)
    results = results if isinstance(results, list) else [results]
    computed = []
    for inputs in build.data_sets():
        if build.reference is not None:
            computed.append([np.asarray(array) for array in build.reference(*inputs.values())])
        else:
            session = _session(build.model(results))
            run = _run_by_item if build.by_item else type(session).run
            computed.append(run(session, results, inputs))
    types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in computed[0]]
    model = build.model(results, types)
    onnx.save_model(model, folder / "model.onnx")
    if build.by_item:
        (folder / "by_item").touch()
    for index, (inputs, outputs) in enumerate(zip(build.data_sets(), computed)):
        save_arrays(folder / f"inputs_{index}.npz", inputs)
        save_arrays(
            folder / f"outputs_{index}.npz", {str(i): array for i, array in enumerate(outputs)}
        )
    return case_name, build.tolerance, operators_of(model)
