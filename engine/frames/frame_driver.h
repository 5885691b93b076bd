// The frame driver: advances the requests of a model that is searched by frames. Each step runs the
// model for what all their searches need next, and advances them; requests may be at different
// frames, join before any step and leave after any (continuous batching). The beam driver
// (engine/beam) does the same by tokens; neither knows the other. Private to engine/.
//
// Requests whose sources arrive while they are searched (streams) are set aside when they have read
// all frames that have come, and return when more frames come (FrameFeed), or when their time is
// over. They cost nothing meanwhile, whatever their number.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_FRAME_DRIVER_H_
#define BEAMWRIGHT_ENGINE_FRAMES_FRAME_DRIVER_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/frames/chunk_encoder.h"
#include "engine/frames/frame_request.h"
#include "engine/frames/label_models.h"
#include "engine/request/request_driver.h"

namespace beamwright::engine {

// FrameStepper: what a step of the frame driver computes, by what the model is.

// One thread at a time.
class FrameStepper {
 public:
  virtual ~FrameStepper() = default;

  // Runs the model's graphs for what `requests` need next, and changes nothing of them, for others
  // may answer them meanwhile. A run that ended early, whatever came of it, can be made again with
  // some of the requests. Not OK: the graph failed, or was interrupted.
  virtual absl::Status RunModel(const ops::ExecutionContext& context,
                                absl::Span<FrameRequest* const> requests) = 0;

  // Advances those of them that have no answer yet. What became of each is its `status`.
  virtual void Advance(const ops::ExecutionContext& context,
                       absl::Span<FrameRequest* const> requests) = 0;

  // The request leaves: what it holds here is free again.
  virtual void Leave(FrameRequest& request) = 0;
};

// ColumnStepper: steps of requests whose frames are columns of an encoder's output, CTC and
// taggers, side by side on the engine's threads. They share nothing but runs of the language models
// that some of them ask for.

class ColumnStepper final : public FrameStepper {
 public:
  // parts: of a CTC model or a tagger; must outlive it.
  explicit ColumnStepper(const DecodeModel::Parts& parts) : scorers_(parts) {}

  absl::Status RunModel(const ops::ExecutionContext& context,
                        absl::Span<FrameRequest* const> requests) override;
  void Advance(const ops::ExecutionContext& context,
               absl::Span<FrameRequest* const> requests) override;
  void Leave(FrameRequest& request) override { scorers_.Leave(request); }

 private:
  RowScorers scorers_;
};

class FrameDriver : public RequestDriver<FrameRequest> {
 public:
  // encoder: of a model whose encoder reads chunk by chunk; else null.
  FrameDriver(std::shared_ptr<const DecodeModel> model, std::unique_ptr<FrameStepper> stepper,
              std::unique_ptr<ChunkEncoder> encoder = nullptr)
      : RequestDriver(std::move(model)),
        stepper_(std::move(stepper)),
        encoder_(std::move(encoder)) {}

  using Driver::Step;
  void Join(std::unique_ptr<Request> request) override;
  absl::Duration Step(const ops::ExecutionContext& context, EngineObserver* observer,
                      Underway* underway) override;
  void AnswerMeanwhile(absl::Time now, const absl::Status& end, EngineObserver* observer) override;
  void FailAll(const absl::Status& why) override;
  void End(const absl::Status& why) override;
  Reserved reserved() const override;
  int num_rows() const override;
  absl::Time next_work() const override;

 private:
  void Leave(FrameRequest& request) override { stepper_->Leave(request); }

  // Streams that were set aside and have new frames, or whose time is over, come back.
  void TakeBack(absl::Time now);
  // Takes the frames that came for a request.
  absl::Status TakeNews(const ops::ExecutionContext& context, FrameRequest& request);
  void TakeAllNews(const ops::ExecutionContext& context);
  // Announces the next frames to a search that waits, and ends segments. ResourceExhausted if there
  // is no memory for a longer segment: the request then ends with the segments so far.
  absl::Status GoOn(FrameRequest& request);
  // After TakeNews for a stream, with its status: the search goes on, and the request may be done.
  void Proceed(FrameRequest& request, const absl::Status& status);
  // Whether frames of a stream have been encoded and not searched. The encoder waits for the
  // search: a result, which may be the last one, comes before the chunks of others, and the next
  // run has all chunks that there are.
  bool HasFramesToSearch() const;
  // Runs the encoder over the next chunks of requests that have one.
  void EncodeChunks(const ops::ExecutionContext& context, EngineObserver* observer,
                    Underway* underway);
  absl::Status RunEncoder(const ops::ExecutionContext& context,
                          absl::Span<FrameRequest* const> requests, Underway* underway);
  void TakeChunks(const ops::ExecutionContext& context, absl::Span<FrameRequest* const> requests);
  void SetAside();
  void TakeAllBack();

  absl::Status RunModel(const ops::ExecutionContext& context, Underway* underway);
  void AdvanceAll(const ops::ExecutionContext& context);

  const std::unique_ptr<FrameStepper> stepper_;
  const std::unique_ptr<ChunkEncoder> encoder_;  // null: none reads chunk by chunk
  // Set aside, by number.
  std::unordered_map<uint64_t, std::unique_ptr<FrameRequest>> aside_;
  Reserved aside_reserved_;
  bool answered_aside_ = false;                   // some of them have their answer
  absl::Time next_due_ = absl::InfiniteFuture();  // when the first of them must be looked at
  const std::shared_ptr<WokenRequests> woken_ = std::make_shared<WokenRequests>();
  uint64_t num_joined_ = 0;
  std::vector<FrameRequest*> encoded_;  // whose chunks the encoder reads
  uint64_t last_encoded_ = 0;           // the last of them, by its number
  std::vector<FrameRequest*> stepped_;  // those who take part in the step
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_FRAME_DRIVER_H_
