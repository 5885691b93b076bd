// Calls on a list of sources, for all protocols: SourcesCall runs one from its request to its
// answer. Decoding and scoring say what they do with a source.
//
// Decode waits until the model is in memory (WithModel), DecodeJob moves the reading of long
// options to another thread (long_work), and Begin runs the call in three steps, marked below:
//
// 1. The request as a whole is checked, and its options are resolved once for all sources.
// 2. Each source goes to the engine.
// 3. When all sources are answered, they are counted, and the call gets its outcome. An answer that
//    is too large for a message, or cannot be converted to the caller's protocol, is a failure, and
//    is counted as one.
//
// Sources that a model fails on by its fault are counted for the quarantine, but only texts: ids
// and tensors are the caller's, and may be what the model fails on.
#include "server/serving/decode.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/model/parts.h"
#include "engine/request/answers.h"
#include "engine/request/media_sources.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/fault_point.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/core.h"
#include "server/serving/model_registry.h"

namespace beamwright::serving {
namespace {

const v1::Decoded& ContentOf(const v1::Result& result) { return result.decoded(); }
const v1::Scored& ContentOf(const v1::ScoreResult& result) { return result.scored(); }
void SetContent(v1::Decoded decoded, v1::Result& result) {
  *result.mutable_decoded() = std::move(decoded);
}
void SetContent(v1::Scored scored, v1::ScoreResult& result) {
  *result.mutable_scored() = std::move(scored);
}

// Whether a call may have `num_sources` sources; `verb`: what is to be done with them.
// InvalidArgument, Unavailable for a model in quarantine.
absl::Status CheckSources(Core& core, const engine::DecodeModel& model, int num_sources,
                          const char* verb, absl::Time now) {
  BW_RETURN_IF_ERROR(engine::CheckNumSources(num_sources, verb));
  return core.quarantine().Check(model, now);
}

// For the engine's thread, when it has answered the last of a call's `num_sources` sources. Runs
// `reply` soon; here, which spares the way through another thread, if the engine has no other work
// and it cannot take long.
void Reply(Core& core, int num_sources, std::function<void()> reply) {
  if (num_sources == 1 && core.engine().idle()) {
    reply();
  } else {
    core.replies().Post(std::move(reply));
  }
}

// SourcesCall: one call on a list of sources, from the look at the whole request to the one answer.
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
    absl::StatusOr<int> num_sources = status::OrOutOfMemory([&] { return Check(open); });
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
    options_.num_sources = num_sources;
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

// Protobuf's limit.
constexpr size_t kMaxReplyBytes = std::numeric_limits<int32_t>::max();
status::SourceNames NamesOf(Method method) {
  return method == Method::kStreamDecode || method == Method::kHttpStreamDecode
             ? status::SourceNames{}
             : status::SourceNames{"sources", "source"};
}

// Bounds the options of a call times its sources: each source holds what it reads of the options'
// lists until it is answered, so that a call of many sources with long lists costs more than its
// size says.
absl::Status CheckLists(const v1::DecodeRequest& request) {
  constexpr int64_t kMostBytes = int64_t{1} << 23;
  const auto bytes = static_cast<int64_t>(request.options().ByteSizeLong());
  return bytes * request.sources_size() <= kMostBytes
             ? absl::OkStatus()
             : status::InvalidField("options", "have ", bytes, " bytes for each of ",
                                    request.sources_size(), " sources, together more than ",
                                    kMostBytes, "; send fewer sources a call");
}

using DecodeCall = SourcesCall<v1::DecodeResponse, v1::Decoded>;

// An answer that can't be sent is not a success.
absl::Status CheckConverts(const DecodeCall& call) {
  if (call.response().ByteSizeLong() > kMaxReplyBytes) {
    return status::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("the reply has ", call.response().ByteSizeLong(),
                         " bytes, more than a message can hold; send fewer sources a call")),
        status::reason::kReplyTooLarge);
  }
  return call.caller().convert == nullptr ? absl::OkStatus()
                                          : call.caller().convert(call.response());
}

absl::Status OutcomeOf(const DecodeCall& call) {
  if (call.caller().all_or_nothing && !call.IsCancelled()) {
    for (int i = 0; i < call.response().results_size(); ++i) {
      if (const v1::Result& result = call.response().results(i); result.has_error()) {
        return Annotate(status::FromRpcStatus(result.error()), absl::StrCat("source ", i));
      }
    }
  }
  const absl::Status outcome = call.Outcome();
  return outcome.ok() ? CheckConverts(call) : outcome;
}

// num_faults: sources that failed by fault of the model.
void CountResults(Core& core, const DecodeCall& call, int num_faults) {
  core.metrics().CountSources(call.model(), call.response());
  int decoded = 0;
  for (const v1::Result& result : call.response().results()) {
    decoded += result.has_decoded() ? 1 : 0;
  }
  core.quarantine().Count(call.model(), decoded, num_faults, SteadyNow());
}

// The call, on the thread that is to read its options.
void Begin(Core& core, absl::StatusOr<Job> given, const Caller& caller, DecodeDone done) {
  auto* const call = new DecodeCall(core, caller, NamesOf(caller.method), std::move(done));
  struct Begun {
    absl::StatusOr<Job> job;
    std::shared_ptr<const engine::ResolvedOptions> resolved;
  };
  const auto begun = std::make_shared<Begun>();
  begun->job = std::move(given);
  const auto num_faults = std::make_shared<std::atomic<int>>(0);
  // 1. The request as a whole: what is wrong with it, or its sources.
  const auto open = [&](ModelPtr& model) -> absl::StatusOr<std::vector<const v1::Source*>> {
    BW_RETURN_IF_ERROR(begun->job.status());
    model = begun->job->model;
    const v1::DecodeRequest& request = begun->job->request;
    BW_RETURN_IF_ERROR(
        CheckSources(core, *model, request.sources_size(), "decode", call->started()));
    BW_RETURN_IF_ERROR(CheckLists(request));
    BW_ASSIGN_OR_RETURN(begun->resolved, engine::ResolveOptions(*model, request.options()));
    return std::vector<const v1::Source*>(request.sources().pointer_begin(),
                                          request.sources().pointer_end());
  };
  // 2. A source goes to the engine.
  const auto start = [&core, begun, num_faults](int number, const engine::CallOptions& options,
                                                DecodeCall::Answer answer) {
    v1::Source& source = *begun->job->request.mutable_sources(number);
    // Ids and tensors are the caller's own, and may be what the model fails on.
    const bool is_text = source.has_text();
    core.engine().DecodeResolved(
        begun->job->model, std::move(source), begun->resolved, options,
        [num_faults, is_text, answer = std::move(answer)](absl::StatusOr<v1::Decoded> decoded) {
          *num_faults += is_text && absl::IsInternal(decoded.status()) ? 1 : 0;
          answer(std::move(decoded));
        });
  };
  // 3. All sources are answered.
  call->Run(open, start, [&core, num_faults](const DecodeCall& ended) {
    CountResults(core, ended, *num_faults);
    return OutcomeOf(ended);
  });
}

}  // namespace

absl::StatusOr<Job> MakeJob(const ModelRegistry& models,
                            absl::StatusOr<v1::DecodeRequest> request) {
  BW_RETURN_IF_ERROR(request.status());
  Job job;
  BW_ASSIGN_OR_RETURN(job.model, models.Lookup(request->model(), request->version()));
  job.request = *std::move(request);
  return job;
}

void DecodeJob(Core& core, absl::StatusOr<Job> job, const Caller& caller, DecodeDone done) {
  if (!job.ok() || !TakeLongToRead(*job->model, job->request.options())) {
    Begin(core, std::move(job), caller, std::move(done));
    return;
  }
  const auto held = std::make_shared<absl::StatusOr<Job>>(std::move(job));
  const absl::Status status =
      core.long_work().Post(caller, [&core, held, caller, done](const absl::Status& outcome) {
        Begin(core, outcome.ok() ? std::move(*held) : outcome, caller, done);
      });
  if (!status.ok()) {
    Begin(core, status, caller, std::move(done));
  }
}

void Decode(Core& core, absl::StatusOr<v1::DecodeRequest> request, const Caller& caller,
            DecodeDone done) {
  WithModel(
      core.models(), std::move(request), caller.deadline,
      [&core, caller, done = std::move(done)](absl::StatusOr<v1::DecodeRequest> ready) mutable {
        DecodeJob(core, MakeJob(core.models(), std::move(ready)), caller, std::move(done));
      });
}

// Score, and Align, which is turned into a call of Score and back.
//
// WithModel waits for the model. ScoreNow then makes a ScoreCall, which runs the sources and
// collects their answers: `open` checks the request as a whole (Open), `start` gives one source to
// the engine, and the last function counts what was scored. Errors of an alignment are turned into
// the terms of its request (in_terms).
namespace {

bool Aligns(Method method) { return method == Method::kAlign || method == Method::kHttpAlign; }

using ScoreCall = SourcesCall<v1::ScoreResponse, v1::Scored>;

// The request as a whole: what is wrong with it, or its sources. Sets `model`.
absl::StatusOr<std::vector<const v1::Source*>> Open(Core& core, const ScoreCall& call,
                                                    const absl::StatusOr<v1::ScoreRequest>& given,
                                                    ModelPtr& model) {
  BW_RETURN_IF_ERROR(given.status());
  const v1::ScoreRequest& request = *given;
  BW_ASSIGN_OR_RETURN(model, core.models().Lookup(request.model(), request.version()));
  BW_RETURN_IF_ERROR(CheckSources(core, *model, request.sources_size(), "score", call.started()));
  if (Aligns(call.caller().method) && !model->config().has_decoder()) {
    return status::InvalidField(
        "model", "is searched by frames and has no attention; Score returns token_frames");
  }
  BW_RETURN_IF_ERROR(engine::CheckScoreOptions(*model, request.options()));
  std::vector<const v1::Source*> sources;
  for (const v1::ScoreSource& source : request.sources()) {
    sources.push_back(&source.source());
  }
  return sources;
}

// Scores the sources of a request whose model is in memory.
void ScoreNow(Core& core, absl::StatusOr<v1::ScoreRequest> given, const Caller& caller,
              ScoreDone done) {
  const bool aligns = Aligns(caller.method);
  // An error in the terms of the request that the client sent.
  const auto in_terms = [aligns](const absl::Status& status) {
    return aligns ? engine::InAlignTerms(status) : status;
  };
  auto* const call =
      new ScoreCall(core, caller, {aligns ? "pairs" : "sources", ""}, std::move(done));
  struct Begun {
    absl::StatusOr<v1::ScoreRequest> request;
    ModelPtr model;
  };
  const auto begun = std::make_shared<Begun>();
  begun->request = std::move(given);
  const auto open = [&](ModelPtr& model) -> absl::StatusOr<std::vector<const v1::Source*>> {
    auto sources = Open(core, *call, begun->request, model);
    begun->model = model;
    if (!sources.ok()) {
      return in_terms(sources.status());
    }
    return sources;
  };
  const auto start = [&core, begun, in_terms](int number, const engine::CallOptions& options,
                                              ScoreCall::Answer answer) {
    core.engine().Score(begun->model, std::move(*begun->request->mutable_sources(number)),
                        begun->request->options(), options,
                        [in_terms, answer = std::move(answer)](absl::StatusOr<v1::Scored> scored) {
                          if (!scored.ok()) {
                            scored = in_terms(scored.status());
                          }
                          answer(std::move(scored));
                        });
  };
  call->Run(open, start, [&core](const ScoreCall& ended) {
    core.metrics().CountScored(ended.model(), ended.response());
    return ended.Outcome();
  });
}

}  // namespace

void Score(Core& core, absl::StatusOr<v1::ScoreRequest> request, const Caller& caller,
           ScoreDone done) {
  WithModel(
      core.models(), std::move(request), caller.deadline,
      [&core, caller, done = std::move(done)](absl::StatusOr<v1::ScoreRequest> ready) mutable {
        ScoreNow(core, std::move(ready), caller, std::move(done));
      });
}

void Align(Core& core, absl::StatusOr<v1::AlignRequest> request, const Caller& caller,
           const AlignDone& done) {
  absl::StatusOr<v1::ScoreRequest> score =
      request.ok() ? engine::ToScoreRequest(*std::move(request)) : request.status();
  Score(core, std::move(score), caller, [done](absl::StatusOr<v1::ScoreResponse> response) {
    if (response.ok()) {
      done(engine::ToAlignResponse(*std::move(response)));
    } else {
      done(response.status());
    }
  });
}

}  // namespace beamwright::serving
