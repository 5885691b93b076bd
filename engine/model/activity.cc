// Runs Silero's model of speech activity over samples: probabilities of speech, one for each window
// of 512 samples, of which it reads the 64 before, too.
//
// ActivityPortsOf knows two forms of the graph by its inputs: one reads any number of windows and
// has two states; the other reads one window and a sampling rate, and has one state. Create runs
// two windows of zeros at load, so that a graph with other results is refused there.
//
// ActivityStream brings samples to the model's rate, keeps those that fill no window yet, and runs
// as many whole windows as there are, at most kMostWindows at once.
#include "engine/model/activity.h"

#include <algorithm>
#include <utility>

#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

constexpr int64_t kWidth = ActivityModel::kContext + ActivityModel::kWindow;
constexpr int64_t kMostWindows = 64;  // of one run

// Parameters of either graph; its results are probabilities and the states in this order.
struct ActivityPorts {
  int input = -1;
  int rate = -1;  // -1: the graph reads windows of one rate, any number of them
  std::vector<int> states;
};

ActivityPorts ActivityPortsOf(const ops::Graph& graph) {
  ActivityPorts ports;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const ops::ValueInfo& info = graph.node(graph.parameters[i]).outputs[0];
    if (!info.shape.has_rank()) {
      return {};
    }
    const bool is_float = info.dtype == ops::DType::kF32;
    const int rank = info.shape.rank();
    if (is_float && rank == 2 && (info.shape.dim(1) == kWidth || info.shape.dim(1) < 0)) {
      ports.input = static_cast<int>(i);
    } else if (is_float && rank == 3) {
      ports.states.push_back(static_cast<int>(i));
    } else if (info.dtype == ops::DType::kI64 && rank == 0) {
      ports.rate = static_cast<int>(i);
    } else {
      return {};
    }
  }
  const size_t num_states = ports.rate < 0 ? 2 : 1;
  const bool fits = ports.states.size() == num_states && graph.results.size() == num_states + 1;
  return fits ? ports : ActivityPorts();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ActivityModel>> ActivityModel::Create(
    const ops::ExecutionContext& context, ops::Graph graph) {
  std::shared_ptr<ActivityModel> made(new ActivityModel);
  BW_ASSIGN_OR_RETURN(made->model_, ops::Model::Compile(std::move(graph)));
  const ActivityPorts ports = ActivityPortsOf(made->model_->graph());
  if (ports.input < 0) {
    return Invalid(
        "is not Silero's graph: silero_vad.onnx or silero_vad_16k_sequence.onnx of the Python "
        "package silero-vad");
  }
  made->input_ = static_cast<size_t>(ports.input);
  std::vector<ops::Tensor> states;
  std::vector<float> probabilities;
  BW_RETURN_IF_ERROR(
      made->Run(context, ops::Tensor::Zeros(ops::DType::kF32, {2, kWidth}), states, probabilities));
  return made;
}

ops::Shape ActivityModel::StateShape(int state) const {
  const ops::Graph& graph = model_->graph();
  const int parameter = ActivityPortsOf(graph).states[static_cast<size_t>(state)];
  ops::Shape shape =
      graph.node(graph.parameters[static_cast<size_t>(parameter)]).outputs[0].shape.dims();
  for (int64_t& extent : shape) {
    extent = extent < 0 ? 1 : extent;  // sources
  }
  return shape;
}

absl::Status ActivityModel::Run(const ops::ExecutionContext& context, const ops::Tensor& input,
                                std::vector<ops::Tensor>& states,
                                std::vector<float>& probabilities) const {
  const ActivityPorts ports = ActivityPortsOf(model_->graph());
  if (states.empty()) {
    for (size_t i = 0; i < ports.states.size(); ++i) {
      states.push_back(ops::Tensor::Zeros(ops::DType::kF32, StateShape(static_cast<int>(i))));
    }
  }
  const int64_t num_windows = input.dim(0);
  const int64_t a_run = ports.rate < 0 ? num_windows : 1;
  for (int64_t window = 0; window < num_windows; window += a_run) {
    std::vector<ops::Tensor> inputs(model_->graph().parameters.size());
    inputs[input_] = input;
    if (ports.rate >= 0) {
      inputs[input_] = ops::Tensor(ops::DType::kF32, {1, kWidth});
      std::copy_n(input.data<float>() + window * kWidth, kWidth,
                  inputs[input_].mutable_data<float>());
      inputs[static_cast<size_t>(ports.rate)] =
          ops::Tensor::Of<int64_t>({}, std::vector<int64_t>{kSampleRate});
    }
    for (size_t i = 0; i < states.size(); ++i) {
      inputs[static_cast<size_t>(ports.states[i])] = states[i];
    }
    std::vector<ops::Tensor> outputs;
    BW_RETURN_IF_ERROR(model_->Run(context, inputs, outputs));
    bool fits = outputs[0].dtype() == ops::DType::kF32 && outputs[0].num_elements() == a_run;
    for (size_t i = 0; i < states.size(); ++i) {
      fits = fits && outputs[i + 1].shape() == states[i].shape();
    }
    if (!fits) {
      return Invalid("its results are not a probability for each window and new states");
    }
    const absl::Span<const float> found = outputs[0].span<float>();
    probabilities.insert(probabilities.end(), found.begin(), found.end());
    states.assign(outputs.begin() + 1, outputs.end());
  }
  return absl::OkStatus();
}

absl::Status ActivityStream::Add(absl::Span<const float> samples,
                                 std::vector<float>& probabilities) {
  resampler_.Add(samples, samples_);
  size_t at = 0;
  while (samples_.size() - at >= kWidth) {
    const auto here = static_cast<int64_t>(samples_.size() - at);
    const int64_t num_windows =
        std::min((here - ActivityModel::kContext) / ActivityModel::kWindow, kMostWindows);
    ops::Tensor input(ops::DType::kF32, {num_windows, kWidth});
    for (int64_t i = 0; i < num_windows; ++i, at += ActivityModel::kWindow) {
      std::copy_n(samples_.data() + at, kWidth, input.mutable_data<float>() + i * kWidth);
    }
    BW_RETURN_IF_ERROR(model_->Run(ops::ExecutionContext(), input, states_, probabilities));
  }
  samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(at));
  return absl::OkStatus();
}

}  // namespace beamwright::engine
