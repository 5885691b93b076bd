// A sequence of inference requests as one Recognize call. Sequences finds the sequence of a
// request; a Sequence adds its parts to a Recognition and answers each request.
//
// 1. Infer: PieceOf turns the request's source into a piece. A request with sequence_start begins a
//    sequence (Begin; one with the same key is given up), others find theirs (Find). The key is
//    tenant, model and id: tenants cannot reach each other's sequences.
// 2. Sequence::Add adds the piece (`adding_` keeps the order of requests) and notes who waits for
//    an answer.
// 3. Advance takes all messages of the recognition. A request is answered with the best hypothesis
//    so far once its piece was read; the last one when the recognition has ended.
// 4. Look, on a periodic thread, gives up sequences without a request for `idle_`, and for two
//    seconds while the server drains.
//
// The sequence of the last request leaves the map at once, so that its id can begin anew; it lives
// (`self_`) until its requests are answered.
#include "server/oip/sequences.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "server/serving/recognition.h"

namespace beamwright::oip {
namespace {

using serving::StreamWatch;
using ParameterMap = google::protobuf::Map<std::string, inference::InferParameter>;

absl::Status ReadFlag(const ParameterMap& parameters, const std::string& name, bool& flag) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) {
    return absl::OkStatus();
  }
  if (!found->second.has_bool_param()) {
    return status::InvalidField(absl::StrCat("parameters['", name, "']"), "is not a bool");
  }
  flag = found->second.bool_param();
  return absl::OkStatus();
}

// A part of the source as a request of Recognize.
absl::StatusOr<v1::RecognizeRequest> PieceOf(const v1::DecodeRequest& request) {
  if (request.sources_size() != 1) {
    return status::InvalidField("inputs", "hold ", request.sources_size(),
                                " sources; a request of a sequence has 1");
  }
  const v1::Source& source = request.sources(0);
  v1::RecognizeRequest piece;
  if (source.has_audio()) {
    piece.set_audio(source.audio().data());
  } else {
    *piece.mutable_features() = source.features();
  }
  return piece;
}

}  // namespace

absl::StatusOr<SequencePart> ReadSequencePart(const ParameterMap& parameters) {
  SequencePart part;
  const auto found = parameters.find("sequence_id");
  if (found != parameters.end()) {
    using Choice = inference::InferParameter::ParameterChoiceCase;
    const inference::InferParameter& id = found->second;
    switch (id.parameter_choice_case()) {
      case Choice::kInt64Param:
        part.id = id.int64_param() == 0 ? "" : absl::StrCat(id.int64_param());
        break;
      case Choice::kUint64Param:
        part.id = id.uint64_param() == 0 ? "" : absl::StrCat(id.uint64_param());
        break;
      case Choice::kStringParam:
        part.id = id.string_param();
        break;
      default:
        return status::InvalidField("parameters['sequence_id']", "is neither a number nor a text");
    }
  }
  BW_RETURN_IF_ERROR(ReadFlag(parameters, "sequence_start", part.is_start));
  BW_RETURN_IF_ERROR(ReadFlag(parameters, "sequence_end", part.is_end));
  return part;
}

// One source. Its requests come one after the other; answers may come on any thread.
class Sequences::Sequence : public std::enable_shared_from_this<Sequence> {
 public:
  Sequence(serving::Core& core, serving::ModelPtr model)
      : core_(core), model_(std::move(model)), used_(SteadyNow()) {}

  void Begin(serving::Caller caller, v1::RecognizeRequest first) {
    const auto wake = [&core = core_, weak = weak_from_this()] {
      core.replies().Post([weak] {
        if (const std::shared_ptr<Sequence> woken = weak.lock()) {
          woken->Advance();
        }
      });
    };
    absl::MutexLock adding(&adding_);
    const auto recognition = serving::Recognition::Make(core_, std::move(caller), wake, [] {});
    {
      absl::MutexLock lock(&mutex_);
      recognition_ = recognition;
    }
    recognition->Add(std::move(first));
  }

  void Add(v1::RecognizeRequest piece, bool is_end, AnswerForm form, Done done) {
    {
      absl::MutexLock adding(&adding_);
      if (const auto recognition = UnderWay(); recognition != nullptr) {
        recognition->Add(std::move(piece));
        if (is_end) {
          recognition->Finish();
        }
      }
    }
    {
      absl::MutexLock lock(&mutex_);
      used_ = SteadyNow();
      waiting_.push_back({std::move(form), is_end, std::move(done)});
      self_ = shared_from_this();
    }
    Advance();
  }

  void GiveUp() {
    if (const auto recognition = UnderWay(); recognition != nullptr) {
      recognition->GiveUp();
    }
  }
  bool HasEnded() const {
    absl::MutexLock lock(&mutex_);
    return has_ended_;
  }
  absl::Time used() const {
    absl::MutexLock lock(&mutex_);
    return waiting_.empty() ? used_ : absl::InfiniteFuture();
  }

 private:
  struct Waiting {
    AnswerForm form;
    bool is_end = false;
    Done done;
  };

  // Takes all messages and answers the requests that can be answered.
  void Advance() {
    std::vector<std::pair<Done, absl::StatusOr<inference::ModelInferResponse>>> answers;
    std::shared_ptr<Sequence> self;
    {
      absl::MutexLock lock(&mutex_);
      TakeAll();
      // Requests before the last one are answered with the best hypothesis so far, once read.
      while (!waiting_.empty() &&
             (has_ended_ || (!waiting_.front().is_end && !recognition_->is_reading()))) {
        answers.emplace_back(std::move(waiting_.front().done), Answer(waiting_.front().form));
        waiting_.erase(waiting_.begin());
      }
      self = waiting_.empty() ? std::move(self_) : nullptr;
    }
    for (auto& [done, answer] : answers) {
      done(std::move(answer));
    }
  }

  // The recognition; null: it has ended.
  std::shared_ptr<serving::Recognition> UnderWay() const {
    absl::MutexLock lock(&mutex_);
    return recognition_;
  }

  void TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::RecognizeResponse message;
    while (!has_ended_) {
      switch (recognition_->Take(message, end_)) {
        case serving::Recognition::Taken::kNothing:
          return;
        case serving::Recognition::Taken::kEnd:
          has_ended_ = true;
          recognition_ = nullptr;  // destroyed: its call counts as open while it lives
          return;
        case serving::Recognition::Taken::kMessage:
          break;
      }
      if (message.has_provisional()) {
        known_.Clear();
        *known_.add_hypotheses() = message.provisional();
      }
      for (v1::RecognizedSegment& segment : *message.mutable_segments()) {
        known_.mutable_hypotheses()->Swap(segment.mutable_hypotheses());
      }
    }
  }

  absl::StatusOr<inference::ModelInferResponse> Answer(const AnswerForm& form)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_.ok()) {
      return end_;
    }
    v1::DecodeResponse response;
    response.set_model(model_->name());
    response.set_version(model_->version());
    response.set_numerics(model_->numerics());
    *response.add_results()->mutable_decoded() = known_;
    return WriteInferResponse(form, response);
  }

  serving::Core& core_;
  const serving::ModelPtr model_;
  absl::Mutex adding_;  // one request at a time; taken before the other

  mutable absl::Mutex mutex_;
  std::shared_ptr<serving::Recognition> recognition_ ABSL_GUARDED_BY(mutex_);  // until it has ended
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Sequence> self_ ABSL_GUARDED_BY(mutex_);  // while a request waits
  v1::Decoded known_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  absl::Time used_ ABSL_GUARDED_BY(mutex_);
};

Sequences::Sequences(serving::Core& core, absl::Duration idle) : core_(core), idle_(idle) {}

Sequences::~Sequences() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, sequence] : sequences_) {
    sequence->GiveUp();
  }
}

void Sequences::Look() {
  const absl::Duration most_idle = std::min(idle_, core_.streams().idle());
  const bool is_draining = !core_.state().CheckAccepting().ok();
  const absl::Time oldest =
      SteadyNow() - (is_draining ? std::min(most_idle, StreamWatch::kMostIdleInDrain) : most_idle);
  absl::MutexLock lock(&mutex_);
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    const bool is_over = it->second->HasEnded() || it->second->used() < oldest;
    if (is_over) {
      it->second->GiveUp();
    }
    it = is_over ? sequences_.erase(it) : std::next(it);
  }
}

absl::StatusOr<std::shared_ptr<Sequences::Sequence>> Sequences::Find(const Key& key,
                                                                     const SequencePart& part) {
  absl::MutexLock lock(&mutex_);
  const auto found = sequences_.find(key);
  if (found == sequences_.end()) {
    BW_RETURN_IF_ERROR(core_.state().CheckAccepting());  // draining gives sequences up
    return status::InvalidField("parameters['sequence_id']", "'", part.id,
                                "' has not begun, or has ended: the first request of a sequence "
                                "sets sequence_start");
  }
  std::shared_ptr<Sequence> sequence = found->second;
  if (part.is_end) {
    sequences_.erase(found);
  }
  return sequence;
}

std::shared_ptr<Sequences::Sequence> Sequences::Begin(const Key& key, const SequencePart& part,
                                                      const InferJob& job,
                                                      const serving::Caller& caller) {
  v1::RecognizeRequest first;
  v1::RecognizeConfig& config = *first.mutable_config();
  config.set_model(job.job.model->name());
  config.set_version(job.job.model->version());
  *config.mutable_options() = job.job.request.options();
  config.set_provisional(true);
  if (job.job.request.sources(0).has_audio()) {
    *config.mutable_audio() = job.job.request.sources(0).audio().format();
  }
  const auto sequence = std::make_shared<Sequence>(core_, job.job.model);
  sequence->Begin(caller, std::move(first));
  std::shared_ptr<Sequence> before;  // an unfinished sequence with the same key
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = sequences_.find(key); found != sequences_.end()) {
      before = found->second;
      sequences_.erase(found);
    }
    if (!part.is_end) {
      sequences_.emplace(key, sequence);
    }
    if (!watch_.has_value()) {
      // Often enough for the idle time of a drain.
      const absl::Duration most_idle =
          std::min({idle_, core_.streams().idle(), StreamWatch::kMostIdleInDrain});
      watch_.emplace("bw-sequences", most_idle / 4, [this] { Look(); });
    }
  }
  if (before != nullptr) {
    before->GiveUp();
  }
  return sequence;
}

void Sequences::Infer(const SequencePart& part, InferJob job, const serving::Caller& caller,
                      Done done) {
  const auto refuse = [&](const absl::Status& why) {
    core_.calls().Refuse(why, caller);
    done(why);
  };
  absl::StatusOr<v1::RecognizeRequest> piece = PieceOf(job.job.request);
  if (!piece.ok()) {
    refuse(piece.status());
    return;
  }
  const Key key = {caller.tenant == nullptr ? "" : caller.tenant->name, job.job.model->name(),
                   part.id};
  const absl::StatusOr<std::shared_ptr<Sequence>> sequence =
      part.is_start ? Begin(key, part, job, caller) : Find(key, part);
  if (!sequence.ok()) {
    refuse(sequence.status());
    return;
  }
  (*sequence)->Add(*std::move(piece), part.is_end, std::move(job.form), std::move(done));
}

}  // namespace beamwright::oip
