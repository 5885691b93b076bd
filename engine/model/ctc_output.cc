// Finds which result of an encoder has the scores of CTC or of tags (FindCtcOutput, FindTagOutput),
// and turns them into log-probabilities (CtcLogProbs).
//
// Without a name in the bundle it is the only result that can be f32 of rank 3 and is no state of a
// streaming encoder. Shapes are checked at load as far as they are known, and again for each output
// (CheckFrames), in which rows or frames come first.
#include "engine/model/ctc_output.h"

#include <string>

#include "engine/model/compile_graphs.h"
#include "engine/model/parts.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"
#include "ops/kernels/panel_scan.h"

namespace beamwright::engine {
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
