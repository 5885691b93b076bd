// Makes the requests of searches by frames: NewRequest chooses the kind (transducer, tagger, CTC),
// and three functions prepare one:
//
// 1. MakeRequest: a whole source. Its price is that of all its frames (SetPrice).
// 2. MakeStreamRequest: a stream, for models whose encoder reads chunk by chunk, or whose frames
//    come from outside. It begins with a small price, which grows with the segment
//    (FrameRequest::MakeRoom).
// 3. MakeScoreRequest: known targets.
//
// MakeDriver makes what steps the requests of a model: a stepper (predictor and joiner, or columns
// of scores) and, for chunks, an encoder.
#include "engine/frames/frame_search_kind.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/frames/column_request.h"
#include "engine/frames/frame_driver.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/frame_stepper.h"
#include "engine/frames/transducer_request.h"
#include "engine/frames/transducer_stepper.h"
#include "engine/options/decode_options.h"
#include "engine/options/read_options.h"
#include "engine/request/request.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

std::unique_ptr<FrameRequest> NewRequest(std::shared_ptr<const DecodeModel> model,
                                         const CallOptions& call) {
  std::unique_ptr<FrameRequest> request;
  if (model->parts().frames->transducer != nullptr) {
    request = std::make_unique<TransducerRequest>();
  } else if (model->parts().frames->kind == search::FrameKind::kTags) {
    request = std::make_unique<TagRequest>();
  } else {
    request = std::make_unique<CtcRequest>();
  }
  request->Accept(call);
  if (const EncoderPart* const encoder = model->parts().chunk_encoder(); encoder != nullptr) {
    request->chunks = std::make_unique<ChunkedSource>(*encoder->streaming);
  }
  request->model = std::move(model);
  return request;
}

// Sets how many rows, steps and bytes the request takes.
absl::Status SetPrice(const EngineOptions& limits, int rows, FrameRequest& request) {
  const int length = request.source.source_length;
  request.beam_size = rows;
  request.price_bytes = PriceFrames(request);
  request.max_steps = CountFrameSteps(request);
  request.knows_steps = request.model->parts().frames->ctc.has_value();
  if (request.call.timeline != nullptr) {
    request.call.timeline->beam_size = rows;
  }
  if (rows > limits.max_rows) {
    return TooLarge("rows", rows, limits.max_rows, "the number of hypotheses or targets");
  }
  return request.price_bytes <= limits.max_bytes
             ? absl::OkStatus()
             : TooLarge("bytes", request.price_bytes, limits.max_bytes,
                        absl::StrCat("the source's length (", length, ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Request>> FrameSearchKind::MakeRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model, PreparedSource source,
    const ResolvedOptions& options, const CallOptions& call) const {
  std::unique_ptr<FrameRequest> request = NewRequest(model, call);
  request->source = std::move(source);
  request->plan = options.frames;
  request->scoring = options.frames->options();
  request->wants_full_sum = options.merged.full_sum();
  request->SetUpScorers();
  BW_RETURN_IF_ERROR(SetPrice(limits, options.frames->options().beam_size, *request));
  if (options.merged.deadline_result() == v1::DEADLINE_RESULT_BEST_SO_FAR) {
    request->MayBeCut();
  }
  request->most_texts =
      options.merged.distinct() == v1::DISTINCT_TEXT ? options.merged.n_best() : 0;
  request->wants_words = options.merged.words();
  request->StartSearch();
  return request;
}

absl::StatusOr<std::unique_ptr<Request>> FrameSearchKind::MakeStreamRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
    const ResolvedOptions& options, const CallOptions& call) const {
  if (model->reads_whole_source()) {
    return status::InvalidField("model",
                                "has an encoder that reads the whole source; pieces are taken for "
                                "one that reads chunk by chunk (encoder.streaming), or as frames "
                                "of one that runs elsewhere");
  }
  if (options.merged.full_sum()) {
    return status::InvalidField("options.full_sum", "needs the whole source; Decode has it");
  }
  std::unique_ptr<FrameRequest> request = NewRequest(model, call);
  request->plan = options.frames;
  request->scoring = options.frames->options();
  request->SetUpScorers();
  request->most_frames = MaxSourceLength(*model);
  for (const search::EndpointRule& rule : call.endpoint) {
    if (!rule.needs_label && rule.min_trailing_blanks == 0) {
      request->most_frames = std::min(request->most_frames, rule.min_frames);
    }
  }
  request->beam_size = options.frames->options().beam_size;
  request->price_bytes = PriceStream(*request, 0);
  request->max_steps = 1;
  if (request->call.timeline != nullptr) {
    request->call.timeline->beam_size = request->beam_size;
  }
  // It grows with the segment (FrameRequest::MakeRoom).
  const int64_t first = PriceStream(*request, std::min(request->most_frames, kFewestPricedFrames));
  if (first > MostNewStreamBytes(limits.max_bytes)) {
    return TooLarge("bytes", first, MostNewStreamBytes(limits.max_bytes),
                    "the number of hypotheses");
  }
  if (options.merged.deadline_result() == v1::DEADLINE_RESULT_BEST_SO_FAR) {
    request->MayBeCut();
  }
  request->most_texts =
      options.merged.distinct() == v1::DISTINCT_TEXT ? options.merged.n_best() : 0;
  request->wants_words = options.merged.words();
  request->StartSearch();
  return request;
}

absl::StatusOr<std::unique_ptr<Request>> FrameSearchKind::MakeScoreRequest(
    const EngineOptions& limits, std::shared_ptr<const DecodeModel> model,
    const v1::ScoreSource& source, const v1::ScoreOptions& options, const CallOptions& call) const {
  std::unique_ptr<FrameRequest> request = NewRequest(model, call);
  BW_ASSIGN_OR_RETURN(request->scoring, ResolveFrameScoring(*model, options));
  BW_ASSIGN_OR_RETURN(request->targets, ReadFrameTargets(*model, source.targets()));
  BW_ASSIGN_OR_RETURN(request->source, PrepareSource(*model, source.source()));
  BW_RETURN_IF_ERROR(SetPrice(limits, static_cast<int>(request->targets.size()), *request));
  request->is_scoring = true;
  BW_RETURN_IF_ERROR(request->StartScoring());
  return request;
}

std::unique_ptr<Driver> FrameSearchKind::MakeDriver(
    std::shared_ptr<const DecodeModel> model) const {
  std::unique_ptr<FrameStepper> stepper;
  if (const auto& transducer = model->parts().frames->transducer; transducer != nullptr) {
    stepper = std::make_unique<TransducerStepper>(model->parts());
  } else {
    stepper = std::make_unique<ColumnStepper>(model->parts());
  }
  std::unique_ptr<ChunkEncoder> encoder;
  if (model->parts().chunk_encoder() != nullptr) {
    encoder = std::make_unique<ChunkEncoder>(model->parts());
  }
  return std::make_unique<FrameDriver>(std::move(model), std::move(stepper), std::move(encoder));
}

}  // namespace beamwright::engine
