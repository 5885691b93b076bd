// CtcOutput: a result of the encoder that says of each frame which token it is, or blank (Graves et
// al. 2006). A scorer of a decoder reads one (engine/beam), and a model without a
// decoder is searched on it alone (engine/frames). Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_MODEL_CTC_OUTPUT_H_
#define BEAMWRIGHT_ENGINE_MODEL_CTC_OUTPUT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "ops/kernels/topk.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

struct EncoderPart;

struct CtcOutput {
  int result = -1;  // index into the encoder's results; -1: the frames come from the request
  int blank = 0;    // its column
  ops::ScoreKind kind = ops::ScoreKind::kLogits;
  int64_t columns = -1;  // of a frame; -1: the graph leaves them open
};

// Finds the result that `config` names, or the only one that can be meant, and checks what is known
// of it. Errors name the field, "ctc.blank".
absl::StatusOr<CtcOutput> FindCtcOutput(const v1::CtcConfig& config, const EncoderPart& encoder);
// The same of a tagger's labels, which have no blank: it is -1. Errors name "tags.encoder_output".
absl::StatusOr<CtcOutput> FindTagOutput(const v1::TagsConfig& config, const EncoderPart& encoder);

// Whether `output` holds the frames of one source, [1, frames, columns] or [frames, 1, columns].
// Internal: it does not, or has no column for the blank.
absl::Status CheckFrames(const CtcOutput& ctc, const ops::Tensor& output);

// The frames of one source as natural-log probabilities [frames, columns], row-major. `output`: [1,
// frames, columns] or [frames, 1, columns]. Internal: it has another form, or no column for the
// blank. InvalidArgument: a frame's scores are NaN or no distribution, naming the frame.
absl::Status CtcLogProbs(const CtcOutput& ctc, const ops::Tensor& output,
                         std::vector<float>& probs);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_CTC_OUTPUT_H_
