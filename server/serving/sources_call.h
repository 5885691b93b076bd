// SourcesCall: one call on a list of sources, from the look at the whole request to the one answer.
// Decoding (decode.cc) and scoring (scorer.cc) say what they do with a source. Private to serving.
#ifndef BEAMWRIGHT_SERVER_SERVING_SOURCES_CALL_H_
#define BEAMWRIGHT_SERVER_SERVING_SOURCES_CALL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/media_sources.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/core.h"

namespace beamwright::serving {

inline const v1::Decoded& ContentOf(const v1::Result& result) { return result.decoded(); }
inline const v1::Scored& ContentOf(const v1::ScoreResult& result) { return result.scored(); }
inline void SetContent(v1::Decoded decoded, v1::Result& result) {
  *result.mutable_decoded() = std::move(decoded);
}
inline void SetContent(v1::Scored scored, v1::ScoreResult& result) {
  *result.mutable_scored() = std::move(scored);
}

// Whether a call may have `num_sources` sources; `verb`: what is to be done with them.
// InvalidArgument, Unavailable for a model in quarantine.
absl::Status CheckSources(Core& core, const engine::DecodeModel& model, int num_sources,
                          const char* verb, absl::Time now);
// The engine's options for a call, and for no other: its sources take turns as one.
engine::CallOptions EngineOptions(Core& core, const Caller& caller);
// Whether it takes long to read a call's options: they have a pattern or a schema that was not
// compiled lately. Long: too long for a thread that calls share.
bool TakeLongToRead(const engine::DecodeModel& model, const v1::DecodeOptions& options);
// For the engine's thread, when it has answered the last of a call's `num_sources` sources. Runs
// `reply` soon; here, which spares the way through another thread, if the engine has no other work
// and it cannot take long.
void Reply(Core& core, int num_sources, std::function<void()> reply);

// Deletes itself when it is answered. Content: what the engine answers for a source.
template <typename Response, typename Content>
class SourcesCall {
 public:
  using Done = std::function<void(absl::StatusOr<Response>)>;
  using Answer = std::function<void(absl::StatusOr<Content>)>;

  SourcesCall(Core& core, const Caller& caller, const status::SourceNames& names, Done done)
      : core_(core),
        caller_(caller),
        started_(SteadyNow()),
        names_(names),
        done_(std::move(done)) {}

  // The call from its request to its answer, by three functions, which are called in this order:
  //   open(model)                     looks at the request as a whole, and sets `model` once it is
  //                                   known: the request's sources, or why the call is refused
  //   start(number, options, answer)  hands a source to the engine; `answer` is called once
  //   finish(call)                    once all sources are answered: counts them. The call's status
  // The first is called before this returns; the second also later, if sources take long to prepare
  // (pictures): other calls' have turns in between (Core::long_work).
  template <typename Open, typename Start>
  void Run(const Open& open, const Start& start,
           std::function<absl::Status(const SourcesCall& call)> finish) {
    absl::StatusOr<int> num_sources = Prepare(open);
    if (num_sources.ok()) {
      finish_ = std::move(finish);
      StartAll(*num_sources, start);
    } else if (const absl::Status why = num_sources.status();
               !core_.state().Hold([this, why] { End(why); })) {
      End(why);
    }
  }

  const Caller& caller() const { return caller_; }
  const engine::DecodeModel& model() const { return *model_; }
  const Response& response() const { return response_; }
  absl::Time started() const { return started_; }
  bool IsCancelled() const {
    return caller_.cancelled != nullptr && caller_.cancelled->cancelled();
  }
  // Of a call whose sources are all answered.
  absl::Status Outcome() const {
    return IsCancelled() ? caller_.cancelled->Outcome(caller_.deadline, SteadyNow())
                         : status::OutcomeOf(response_.results(), names_);
  }

 private:
  using Result =
      typename std::decay_t<decltype(std::declval<const Response&>().results())>::value_type;

  // A result takes about four times as many bytes in memory as on the wire.
  static constexpr size_t kBytesPerByte = 4;

  // Holds memory for a result until the call is answered; false if there is no room.
  bool Hold(size_t bytes) {
    absl::MutexLock lock(&hold_mutex_);
    return hold_.Resize(hold_.bytes() + static_cast<int64_t>(kBytesPerByte * bytes));
  }

  // The number of sources, or why the call is refused.
  template <typename Open>
  absl::StatusOr<int> Prepare(const Open& open) {
    return status::OrOutOfMemory([&] { return Check(open); });
  }

  template <typename Open>
  absl::StatusOr<int> Check(const Open& open) {
    BW_RETURN_IF_ERROR(FaultPoint("call.admit"));
    BW_RETURN_IF_ERROR(core_.state().CheckAccepting());
    BW_ASSIGN_OR_RETURN(const std::vector<const v1::Source*> sources, open(model_));
    response_.set_model(model_->name());
    response_.set_version(model_->version());
    response_.set_numerics(model_->numerics());
    BW_RETURN_IF_ERROR(HoldPictures(sources));
    return static_cast<int>(sources.size());
  }

  // Holds memory for the decoding of the call's largest picture: sources are prepared one after
  // the other.
  absl::Status HoldPictures(absl::Span<const v1::Source* const> sources) {
    int64_t most = 0;
    if (model_->parts().picture.has_value()) {
      for (const v1::Source* source : sources) {
        most = std::max(most, engine::PictureBytes(*model_, *source));
      }
    }
    return picture_hold_.Resize(most) ? absl::OkStatus() : core_.memory().Refusal(most);
  }

  template <typename Start>
  void StartAll(int num_sources, const Start& start) {
    options_ = EngineOptions(core_, caller_);
    // All there before the first source is admitted: the engine's thread fills them as they come.
    for (int i = 0; i < num_sources; ++i) {
      response_.add_results();
    }
    timelines_ = core_.calls().MakeTimelines(caller_.context, num_sources);
    // One more than sources, so that the call can't end while this loop still uses it.
    num_open_ = num_sources + 1;
    StartFrom(0, start);
  }

  // The sources from number `first` on, now and in further turns.
  template <typename Start>
  void StartFrom(int first, const Start& start) {
    constexpr absl::Duration kMostAtOnce = absl::Milliseconds(5);
    const absl::Time begin = SteadyNow();
    for (int i = first; i < response_.results_size(); ++i) {
      if (i > first && SteadyNow() - begin > kMostAtOnce) {
        const absl::Status posted =
            core_.long_work().Post(caller_, [this, i, start](const absl::Status& outcome) {
              outcome.ok() ? StartFrom(i, start) : FailFrom(i, outcome);
            });
        if (!posted.ok()) {
          FailFrom(i, posted);
        }
        return;
      }
      const auto at = static_cast<size_t>(i);
      options_.timeline = at < timelines_.size() ? &timelines_[at] : nullptr;
      Result* const result = response_.mutable_results(i);
      start(i, options_, [this, result](absl::StatusOr<Content> content) {
        Finish(std::move(content), *result);
      });
    }
    EndStart();
  }

  void FailFrom(int first, const absl::Status& status) {
    for (int i = first; i < response_.results_size(); ++i) {
      Finish(status, *response_.mutable_results(i));
    }
    EndStart();
  }

  void EndStart() {
    picture_hold_.Release();
    if (--num_open_ == 0) {
      End(finish_(*this));
    }
  }

  // On the engine's thread, or at once.
  void Finish(absl::StatusOr<Content> content, Result& result) {
    if (content.ok() && !Hold(content->ByteSizeLong())) {
      content = MemoryRunsShort();
    }
    if (content.ok()) {
      SetContent(*std::move(content), result);
    } else {
      *result.mutable_error() = core_.source_refusals().OnWire(content.status());
    }
    if (--num_open_ == 0) {
      Reply(core_, response_.results_size(), [this] { End(finish_(*this)); });
    }
  }

  // Counts the call, answers it, and deletes it.
  void End(absl::Status status) {
    CallWork work{response_.results_size(), nullptr, timelines_};
    if constexpr (std::is_same_v<Response, v1::DecodeResponse>) {
      work.response = &response_;
    }
    for (const Result& result : response_.results()) {
      work.queue_ms += ContentOf(result).queue_ms();
      work.compute_ms += ContentOf(result).compute_ms();
    }
    work.num_failed = status::CountErrors(response_.results());
    core_.calls().Count(caller_, model_.get(), status, started_, work);
    if (response_.results_size() == 0) {
      core_.metrics().CountRejection(status);
    }
    if (status.ok()) {
      done_(std::move(response_));
    } else {
      done_(std::move(status));
    }
    delete this;
  }

  Core& core_;
  const Caller caller_;
  const absl::Time started_;
  const status::SourceNames names_;
  const Done done_;
  std::function<absl::Status(const SourcesCall&)> finish_;
  ModelPtr model_;
  engine::CallOptions options_;
  Response response_;
  std::vector<engine::Timeline> timelines_;  // of the first sources, if the call is traced
  std::atomic<int> num_open_{0};
  MemoryAccount::Hold picture_hold_ = core_.memory().MakeHold();
  absl::Mutex hold_mutex_;
  MemoryAccount::Hold hold_ ABSL_GUARDED_BY(hold_mutex_) = core_.memory().MakeHold();
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SOURCES_CALL_H_
