#include "engine/frames/column_request.h"

#include "absl/strings/str_cat.h"
#include "engine/model/ctc_output.h"
#include "engine/model/model_inputs.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {

const char* ColumnRequest::name() const {
  return model->parts().frames->kind == search::FrameKind::kTags ? "tags" : "ctc";
}

absl::Status ColumnRequest::Start(const ops::ExecutionContext& /*context*/,
                                  const EncodedSources& encoded, int64_t row) {
  const DecodeModel::Parts& parts = model->parts();
  BW_ASSIGN_OR_RETURN(const ops::Tensor output,
                      ResultOfSource(*parts.encoder(), encoded.outputs[0], encoded.num_sources, row,
                                     parts.frames->ctc->result, name(), source.source_length));
  if (output.rank() == 3 && output.dim(2) != parts.frames->num_columns) {
    return absl::InternalError(absl::StrCat("the encoder's frames have ", output.dim(2),
                                            " columns, the target vocabulary asks for ",
                                            parts.frames->num_columns));
  }
  if (output.num_elements() == 0) {
    return NoFrames(source);
  }
  return Annotate(TakeFrames(output), name());
}

absl::Status ColumnRequest::TakeWhole(const ops::ExecutionContext& /*context*/,
                                      const ops::Tensor& whole) {
  return Annotate(TakeFrames(whole), name());
}

absl::Status ColumnRequest::StartAlone(const ops::ExecutionContext& /*context*/) {
  if (is_stream() || StartChunks()) {
    return absl::OkStatus();
  }
  const absl::Status taken = TakeFrames(source.decoder_inputs[0]);
  source.decoder_inputs.clear();
  return status::AtField(taken, "source.features");
}

absl::Status ColumnRequest::TakePiece(const ops::ExecutionContext& /*context*/,
                                      const ops::Tensor& piece) {
  std::vector<float> more;
  BW_RETURN_IF_ERROR(
      status::AtField(CtcLogProbs(*model->parts().frames->ctc, piece, more), "source.features"));
  log_probs.insert(log_probs.end(), more.begin(), more.end());
  num_frames += piece.dim(1);
  return absl::OkStatus();
}

void ColumnRequest::DropFrames(int64_t count) {
  log_probs.erase(log_probs.begin(),
                  log_probs.begin() + count * model->parts().frames->num_columns);
}

absl::Span<const float> ColumnRequest::frame(int64_t number) const {
  const auto columns = static_cast<size_t>(model->parts().frames->num_columns);
  return absl::MakeConstSpan(log_probs).subspan(static_cast<size_t>(number - first_held) * columns,
                                                columns);
}

}  // namespace beamwright::engine
