// InternalModel: what a transducer itself has learnt of its labels, as a language model: the
// joiner's scores of a label history with a frame of zeros, as a distribution over labels, blank
// left out (Meng et al. 2021, arXiv 2011.01991; docs/decoding.md, 'Frames'). Subtracted, it leaves
// room for a language model of another text. A history is scored once, when a label makes it.
// Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_INTERNAL_MODEL_H_
#define BEAMWRIGHT_ENGINE_FRAMES_INTERNAL_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/slot_pool.h"
#include "engine/frames/transducer_request.h"
#include "engine/model/parts.h"

namespace beamwright::engine {

// One thread at a time. A run: Begin, List for each request, Run.
class InternalModel {
 public:
  // part, of the model: outlives this.
  explicit InternalModel(const TransducerPart& part) : part_(part) {}

  void Begin() { rows_.clear(); }
  // Adds the request's new histories, if it asks for the model. Their slots of the predictor's pool
  // have what it says of them when Run is called.
  void List(TransducerRequest& request);
  // Fills their rows of the requests' label_rows, or label_status where scores are NaN. Not OK: the
  // joiner failed, or was interrupted.
  absl::Status Run(const ops::ExecutionContext& context, const SlotPool& pool);

 private:
  struct Row {
    TransducerRequest* request = nullptr;
    size_t scorer = 0;  // of the request
    int32_t slot = 0;   // of its search
    int32_t pool_slot = 0;
  };

  absl::Status MakeZeroFrame(const ops::ExecutionContext& context);
  // log_probs [tokens] of scores [columns].
  absl::Status ToLabels(absl::Span<const float> scores, absl::Span<float> log_probs);

  const TransducerPart& part_;
  std::vector<ops::Tensor> zero_frame_;  // what the joiner reads of it, one row each
  std::vector<Row> rows_;
  std::vector<ops::Tensor> inputs_;
  std::vector<int32_t> own_rows_;
  ops::RowGraph::Scratch scratch_;
  std::vector<ops::Tensor> none_;
  std::vector<ops::Tensor> results_;
  std::vector<float> scores_;  // [rows, columns], where the joiner's last product was split off
  std::vector<float> columns_;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_INTERNAL_MODEL_H_
