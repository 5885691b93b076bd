#include "engine/model/parts.h"

#include <utility>

#include "engine/model/compile_graphs.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"

namespace beamwright::engine {

// Runs Silero's model of speech activity over samples: probabilities of speech, one for each window
// of 512 samples, of which it reads the 64 before, too.
//
// ActivityPortsOf knows two forms of the graph by its inputs: one reads any number of windows and
// has two states; the other reads one window and a sampling rate, and has one state. Create runs
// two windows of zeros at load, so that a graph with other results is refused there.
//
// ActivityStream brings samples to the model's rate, keeps those that fill no window yet, and runs
// as many whole windows as there are, at most kMostWindows at once.

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

// Finds which result of an encoder has the scores of CTC or of tags (FindCtcOutput, FindTagOutput),
// and turns them into log-probabilities (CtcLogProbs).
//
// Without a name in the bundle it is the only result that can be f32 of rank 3 and is no state of a
// streaming encoder. Shapes are checked at load as far as they are known, and again for each output
// (CheckFrames), in which rows or frames come first.

namespace {

bool MayBeFrames(const ops::ValueInfo& info) {
  return info.dtype == ops::DType::kF32 && (!info.shape.has_rank() || info.shape.rank() == 3);
}

// The result of this name; without one the only result that can be CTC scores.
absl::StatusOr<int> FindFrames(const EncoderPart& part, const std::string& field,
                               const std::string& name) {
  const ops::Graph& encoder = part.model->graph();
  const auto is_state = [&part](size_t result) {
    return part.streaming.has_value() && part.streaming->writes_state(static_cast<int>(result));
  };
  if (name.empty()) {
    int found = -1;
    int count = 0;
    for (size_t i = 0; i < encoder.results.size(); ++i) {
      if (!is_state(i) && MayBeFrames(ops::InfoOfResult(encoder, static_cast<int>(i)))) {
        found = static_cast<int>(i);
        ++count;
      }
    }
    if (count == 1) {
      return found;
    }
  }
  return ops::FindResult(encoder, field, name, "encoder");
}

// what: the field of model.textproto, "ctc"; scores: what its columns are, for errors.
absl::StatusOr<CtcOutput> FindColumns(const EncoderPart& encoder, const std::string& what,
                                      const std::string& scores, const std::string& output) {
  const ops::Graph& graph = encoder.model->graph();
  CtcOutput ctc;
  const std::string field = absl::StrCat(what, ".encoder_output");
  BW_ASSIGN_OR_RETURN(ctc.result, FindFrames(encoder, field, output));
  const ops::ValueInfo& info = ops::InfoOfResult(graph, ctc.result);
  const std::string name = PortName(graph, graph.results[static_cast<size_t>(ctc.result)]);
  if (!MayBeFrames(info)) {
    return Invalid(field, ": '", name, "' is ", ops::Name(info.dtype), info.shape.ToString(), "; ",
                   scores);
  }
  ctc.columns = info.shape.has_rank() ? info.shape.dims().back() : ops::PartialShape::kDynamic;
  return ctc;
}

}  // namespace

absl::StatusOr<CtcOutput> FindCtcOutput(const v1::CtcConfig& config, const EncoderPart& encoder) {
  BW_ASSIGN_OR_RETURN(CtcOutput ctc,
                      FindColumns(encoder, "ctc", "CTC scores are f32 [rows, frames, columns]",
                                  config.encoder_output()));
  ctc.blank = config.blank();
  ctc.kind = KindOf(config.kind());
  if (ctc.columns != ops::PartialShape::kDynamic && ctc.blank >= ctc.columns) {
    const ops::Graph& graph = encoder.model->graph();
    return Invalid("ctc.blank: ", ctc.blank, " is outside [0, ", ctc.columns, "), the columns of '",
                   PortName(graph, graph.results[static_cast<size_t>(ctc.result)]), "'");
  }
  return ctc;
}

absl::StatusOr<CtcOutput> FindTagOutput(const v1::TagsConfig& config, const EncoderPart& encoder) {
  BW_ASSIGN_OR_RETURN(
      CtcOutput tags,
      FindColumns(encoder, "tags", "scores of labels are f32 [rows, positions, labels]",
                  config.encoder_output()));
  tags.blank = -1;
  tags.kind = KindOf(config.kind());
  return tags;
}

absl::Status CheckFrames(const CtcOutput& ctc, const ops::Tensor& output) {
  if (output.dtype() != ops::DType::kF32 || output.rank() != 3 ||
      (output.dim(0) != 1 && output.dim(1) != 1) || ctc.blank >= output.dim(2)) {
    return absl::InternalError(absl::StrCat(
        "the encoder's output is ", ops::Name(output.dtype()), ops::ToString(output.shape()),
        " for one source; ", ctc.blank < 0 ? "scores of labels" : "CTC scores",
        " are f32 [1, frames, columns] or [frames, 1, columns]",
        ctc.blank < 0 ? "" : absl::StrCat(", with a column for the blank, ", ctc.blank)));
  }
  return absl::OkStatus();
}

absl::Status CtcLogProbs(const CtcOutput& ctc, const ops::Tensor& output,
                         std::vector<float>& probs) {
  BW_RETURN_IF_ERROR(CheckFrames(ctc, output));
  probs.resize(static_cast<size_t>(output.num_elements()));
  const auto columns = static_cast<size_t>(output.dim(2));
  for (size_t start = 0; start < probs.size(); start += columns) {
    BW_RETURN_IF_ERROR(Annotate(ops::ToLogProbs({output.data<float>() + start, columns}, ctc.kind,
                                                {probs.data() + start, columns}),
                                absl::StrCat("frame ", start / columns)));
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
