// Listener: one that sends a source in pieces and hears what is recognised.
#ifndef BEAMWRIGHT_TESTS_ENGINE_FRAMES_LISTENER_H_
#define BEAMWRIGHT_TESTS_ENGINE_FRAMES_LISTENER_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "include/beamwright/engine.h"
#include "tests/engine/frames/frame_models.h"

namespace beamwright::engine_testing {

// What a stream received, and its answer.
class Listener {
 public:
  Listener() : feed_(std::make_shared<engine::FrameFeed>()) {
    call.feed = feed_;
    call.progress = [this](engine::Progress progress) { Take(std::move(progress)); };
  }

  void Start(engine::Engine& engine, const ModelPtr& model, const v1::DecodeOptions& options) {
    engine.Recognize(model, *engine::ResolveOptions(*model, options), call,
                     [this](absl::StatusOr<v1::Decoded> answer) {
                       answer_ = std::move(answer);
                       done_.Notify();
                     });
  }
  engine::FrameFeed& feed() { return *feed_; }
  const absl::StatusOr<v1::Decoded>& Wait() {
    done_.WaitForNotification();
    // What is stable is the beginning of a segment, and no segment is to come.
    was_contradicted = was_contradicted || !stable_.empty();
    return answer_;
  }
  // Segments as text: where they lie, and the bits of their hypotheses.
  std::vector<std::string> segments;
  bool was_contradicted = false;
  engine::CallOptions call;

 private:
  void Take(engine::Progress progress) {
    for (const engine::Segment& segment : progress.segments) {
      std::string text = absl::StrCat(segment.first_frame, "+", segment.num_frames, ":");
      for (const v1::Hypothesis& hypothesis : segment.hypotheses) {
        text += hypothesis.SerializeAsString();
        was_contradicted = was_contradicted ||
                           hypothesis.tokens_size() < static_cast<int>(stable_.size()) ||
                           !std::equal(stable_.begin(), stable_.end(), hypothesis.tokens().begin());
      }
      segments.push_back(text);
      stable_.clear();
    }
    for (const auto& piece : progress.stable) {
      was_contradicted = was_contradicted || piece.position != static_cast<int>(stable_.size());
      stable_.insert(stable_.end(), piece.tokens.begin(), piece.tokens.end());
    }
  }

  const std::shared_ptr<engine::FrameFeed> feed_;
  std::vector<int32_t> stable_;
  absl::StatusOr<v1::Decoded> answer_;
  absl::Notification done_;
};

}  // namespace beamwright::engine_testing

#endif  // BEAMWRIGHT_TESTS_ENGINE_FRAMES_LISTENER_H_
