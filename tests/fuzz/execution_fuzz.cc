// Compiling and running: whatever a sound graph computes on whatever values, a result or an error.
// An input is an IR (it begins with '<'), an ONNX model (with its first field, the IR version), or
// else the choices of a random graph.
#include "ops/base/steady_time.h"
#include "ops/loop/model.h"
#include "ops/tensor/tensor_memory.h"
#include "tests/fuzz/graph_input.h"
#include "tests/fuzz/random_graph.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kMostBytes = 1 << 16;  // of a tensor

// Twice into the same outputs: the second run finds buffers of the first.
void Run(const Model& model, const std::vector<std::vector<Tensor>>& runs) {
  ExecutionContext context;
  context.deadline = SteadyNow() + absl::Milliseconds(100);
  const TensorLimit limit(kMostBytes);
  std::vector<Tensor> outputs;
  for (const std::vector<Tensor>& inputs : runs) {
    model.Run(context, inputs, outputs).IgnoreError();
  }
}

void RunFile(absl::StatusOr<Graph> graph) {
  if (!graph.ok()) {
    return;
  }
  const auto model = Model::Compile(*std::move(graph));
  if (!model.ok()) {
    return;
  }
  for (const int64_t extent : {2, 1, 0}) {
    const auto inputs = InputsFor((*model)->graph(), extent, kMostBytes / 8);
    if (inputs.ok()) {
      Run(**model, {*inputs});
    }
  }
}

void RunRandom(absl::Span<const uint8_t> bytes) {
  ByteSource source(bytes);
  RandomGraph made = MakeRandomGraph(source);
  const auto model = Model::Compile(std::move(made.graph));
  if (model.ok()) {
    Run(**model, {made.inputs, made.other_inputs});
  }
}

}  // namespace
}  // namespace beamwright::ops

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint8_t kIrVersionField = 8;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == '<') {
    beamwright::ops::RunFile(beamwright::ops::GraphOfIr(bytes));
  } else if (size > 0 && data[0] == kIrVersionField) {
    beamwright::ops::RunFile(beamwright::ops::GraphOfOnnx(bytes));
  } else {
    beamwright::ops::RunRandom(absl::MakeConstSpan(data, size));
  }
  return 0;
}
