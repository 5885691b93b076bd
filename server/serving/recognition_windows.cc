// Recognition: sound in windows, one after the other.
#include <cmath>
#include <utility>

#include "engine/model/parts.h"
#include "ops/base/steady_time.h"
#include "server/serving/recognition.h"

namespace beamwright::serving {

void Recognition::TakeWindows() {
  while (std::optional<SoundWindows::Window> window = sound_windows_->Next()) {
    if (!window->is_silent) {
      absl::MutexLock lock(&mutex_);
      windows_.push_back(*std::move(window));
    }
  }
  StartWindow();
}

void Recognition::StartWindow() {
  v1::Source source;
  v1::Decoded all;
  bool has_room = false;
  bool is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    if (has_ended_ || has_begun_ || (windows_.empty() && !has_all_windows_)) {
      return;
    }
    is_over = windows_.empty();
    has_begun_ = true;
    if (is_over) {
      all = all_windows_;
    } else {
      has_room = windows_.size() == kMostWindows;
      window_ = std::move(windows_.front());
      windows_.pop_front();
      *source.mutable_audio()->mutable_format() = audio_format_;
      source.mutable_audio()->set_data(std::move(window_.bytes));
    }
  }
  if (is_over) {
    CountSource(std::move(all));
    core_.quarantine().Count(*model_, 1, 0, SteadyNow());
    {
      absl::MutexLock lock(&mutex_);
      summary_.set_final_ms(absl::ToDoubleMilliseconds(SteadyNow() - completed_));
      has_ended_ = true;
    }
    wake_();
    return;
  }
  const engine::CallOptions call = CallForEngine();
  call_.timeline = nullptr;  // it has the times of the first window
  core_.engine().DecodeResolved(model_, std::move(source), options_, call,
                                [self = shared_from_this()](absl::StatusOr<v1::Decoded> answer) {
                                  self->OnWindow(std::move(answer));
                                });
  if (has_room) {
    room_();
  }
}

void Recognition::OnWindow(absl::StatusOr<v1::Decoded> answer) {
  bool has_ended = false;
  {
    absl::MutexLock lock(&mutex_);
    has_ended = has_ended_;
  }
  if (!answer.ok() || has_ended) {
    OnAnswer(std::move(answer));
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    engine::Segment segment = WholeSource(*answer);
    const double frame_ms = summary_.frame_ms();
    segment.first_frame =
        frame_ms > 0 ? std::llround(window_.begin_ms / frame_ms) : summary_.num_frames();
    if (model_->parts().frames == nullptr) {
      segment.num_frames = answer->source_length();
    }
    AddSegment(MakeSegment(std::move(segment), &window_));
    all_windows_.set_queue_ms(all_windows_.queue_ms() + answer->queue_ms());
    all_windows_.set_compute_ms(all_windows_.compute_ms() + answer->compute_ms());
    all_windows_.set_source_length(all_windows_.source_length() + answer->source_length());
    *all_windows_.mutable_hypotheses() = answer->hypotheses();
    has_begun_ = false;
  }
  wake_();
  StartWindow();
}

}  // namespace beamwright::serving
