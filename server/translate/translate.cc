#include "server/translate/translate.h"

#include <algorithm>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/bundle/rules.h"
#include "engine/request/prepared_source.h"
#include "engine/status/error_details.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::translate {
namespace {

using serving::ModelPtr;

// Sentences of a call in the engine at a time.
constexpr size_t kMaxInFlight = 64;
// Of a text in its parsed form, its pieces and its sentences' results, for each of its bytes.
constexpr int64_t kHeldPerByte = 12;

int64_t CountCharacters(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

absl::Status CheckRequest(const v1::TranslateRequest& request) {
  status::Faults faults;
  bundle::CheckRules(request, "", faults);
  for (const auto& [field, value] : {std::pair("source_language", &request.source_language()),
                                     {"target_language", &request.target_language()}}) {
    if (value->empty()) {
      faults.Add(field, "is not set");
    }
  }
  if (request.texts().empty()) {
    faults.Add("texts", "is empty; there is nothing to translate");
  }
  int64_t characters = 0;
  for (const std::string& text : request.texts()) {
    characters += CountCharacters(text);
  }
  if (characters > kMaxCharacters) {
    faults.Add("texts", "have ", characters, " characters; at most ", kMaxCharacters,
               " are allowed in a call");
  }
  return status::OkOrInvalid(faults);
}

// Refused because others are ahead: worth another try while sentences of this call run.
bool IsForLaterOf(const absl::Status& status) {
  const std::string reason = status::ReasonOf(status);
  return absl::IsResourceExhausted(status) &&
         (reason == status::reason::kQueueFull || reason == status::reason::kTenantQuota);
}

}  // namespace

// One call. It passes over the texts once for each model of its route. Its callbacks share it.
class Translator::Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Translator& translator, const serving::Caller& caller, TranslateDone done)
      : translator_(translator),
        core_(translator.core_),
        caller_(caller),
        started_(SteadyNow()),
        done_(std::move(done)) {}

  void Start(absl::StatusOr<v1::TranslateRequest> request) {
    absl::Status status;
    try {
      status = Open(request);
      if (status.ok()) {
        status = BeginPass();
      }
    } catch (const std::bad_alloc&) {
      status = status::OutOfMemory();
    }
    if (status.ok()) {
      Pump();
    } else if (const auto self = shared_from_this();
               !core_.state().Hold([self, status] { self->Answer(status); })) {
      Answer(status);
    }
  }

 private:
  // A sentence, its place in the pass and what was found for it: texts, best first.
  struct Sentence {
    absl::string_view text;
    int text_number;
    std::vector<std::string> found;
  };

  absl::Status Open(absl::StatusOr<v1::TranslateRequest>& request) {
    BW_RETURN_IF_ERROR(core_.state().CheckAccepting());
    BW_RETURN_IF_ERROR(request.status());
    BW_RETURN_IF_ERROR(CheckRequest(*request));
    auto [models, directions] = translator_.Served();
    BW_ASSIGN_OR_RETURN(route_,
                        directions.Find(request->source_language(), request->target_language()));
    for (const size_t number : route_.directions) {
      models_.push_back(models[number]);
      BW_RETURN_IF_ERROR(core_.quarantine().Check(*models_.back(), started_));
    }
    num_alternatives_ = static_cast<size_t>(request->alternatives());
    texts_ = {std::make_move_iterator(request->mutable_texts()->begin()),
              std::make_move_iterator(request->mutable_texts()->end())};
    int64_t bytes = 0;
    for (const std::string& text : texts_) {
      bytes += static_cast<int64_t>(text.size());
    }
    BW_ASSIGN_OR_RETURN(hold_, core_.memory().Reserve(bytes * kHeldPerByte));
    call_ = core_.NextCall();
    return absl::OkStatus();
  }

  bool IsLastPass() const { return pass_ + 1 >= models_.size(); }

  // Splits the texts for the next model.
  absl::Status BeginPass() {
    sentences_.clear();
    pieces_.clear();
    response_.Clear();
    next_ = 0;
    if (pass_ == models_.size()) {
      return absl::OkStatus();
    }
    const engine::DecodeModel& model = *models_[pass_];
    v1::DecodeOptions options;
    if (IsLastPass() && num_alternatives_ > 0) {
      const auto wanted = static_cast<int32_t>(num_alternatives_) + 1;
      options.set_n_best(wanted);
      options.set_beam_size(std::max(wanted, model.config().default_options().beam_size()));
    }
    auto resolved = engine::ResolveOptions(model, options);
    if (!resolved.ok()) {
      return status::WithFields(resolved.status(),
                                [](absl::string_view) { return "alternatives"; });
    }
    options_ = *std::move(resolved);
    BW_ASSIGN_OR_RETURN(const auto splitter,
                        translator_.SplitterFor(model.config().translation().source_language()));
    const bundle::TextCodec& codec = model.source();
    const int added = (codec.begin_id() >= 0 ? 1 : 0) + (codec.end_ids().empty() ? 0 : 1);
    const auto count = [&](absl::string_view text) {
      const absl::StatusOr<bundle::EncodedText> encoded = codec.Encode(text);
      return encoded.ok() ? std::max(0, static_cast<int>(encoded->ids.size()) - added) : 0;
    };
    const int most =
        std::max(1, std::min(kMaxSentenceTokens, engine::MaxSourceLength(model)) - added);
    for (size_t i = 0; i < texts_.size(); ++i) {
      pieces_.push_back(splitter->Split(texts_[i], most, count));
      for (const Piece& piece : pieces_.back()) {
        if (piece.is_sentence) {
          sentences_.push_back({piece.text, static_cast<int>(i), {}});
        }
      }
    }
    num_sentences_ += static_cast<int>(sentences_.size());
    return absl::OkStatus();
  }

  // Hands sentences to the engine as long as there is room for some, and ends the pass when all are
  // back. One thread at a time: the one that set is_pumping_.
  void Pump() {
    std::vector<size_t> batch;
    for (;;) {
      batch.clear();
      {
        absl::MutexLock lock(&mutex_);
        while (failure_.ok() && in_flight_ < most_in_flight_ &&
               (!again_.empty() || next_ < sentences_.size())) {
          if (again_.empty()) {
            batch.push_back(next_++);
          } else {
            batch.push_back(again_.back());
            again_.pop_back();
          }
          ++in_flight_;
        }
        if (batch.empty() && in_flight_ > 0) {
          is_pumping_ = false;
          return;
        }
      }
      for (const size_t number : batch) {
        Submit(number);
      }
      if (batch.empty() && !EndPass()) {
        return;
      }
    }
  }

  void Submit(size_t number) {
    v1::Source source;
    source.set_text(std::string(sentences_[number].text));
    engine::CallOptions options;
    options.cancelled = caller_.cancelled;
    options.deadline = caller_.deadline;
    options.tenant = caller_.tenant;
    options.priority = caller_.priority;
    options.call = call_;
    core_.engine().DecodeResolved(
        models_[pass_], std::move(source), options_, options,
        [self = shared_from_this(), number](absl::StatusOr<v1::Decoded> decoded) {
          self->Take(number, std::move(decoded));
        });
  }

  // On the engine's thread, or within Submit.
  void Take(size_t number, absl::StatusOr<v1::Decoded> decoded) {
    bool resumes = false;
    {
      absl::MutexLock lock(&mutex_);
      --in_flight_;
      if (decoded.ok()) {
        Keep(number, *std::move(decoded));
        most_in_flight_ = std::min(kMaxInFlight, most_in_flight_ + 1);
      } else if (in_flight_ > 0 && IsForLaterOf(decoded.status())) {
        again_.push_back(number);
        most_in_flight_ = in_flight_;
      } else {
        Fail(number, decoded.status());
      }
      // Half of the room at once costs half as many wake-ups as each place by itself.
      const bool has_room = in_flight_ <= most_in_flight_ / 2;
      if (!is_pumping_ && (in_flight_ == 0 || (has_room && HasWaiting()))) {
        is_pumping_ = resumes = true;
      }
    }
    if (resumes) {
      core_.replies().Post([self = shared_from_this()] { self->Pump(); });
    }
  }

  bool HasWaiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return failure_.ok() && (!again_.empty() || next_ < sentences_.size());
  }

  void Keep(size_t number, v1::Decoded decoded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const v1::Hypothesis& hypothesis : decoded.hypotheses()) {
      sentences_[number].found.push_back(hypothesis.text());
    }
    // Metrics count the best hypothesis.
    if (decoded.hypotheses_size() > 1) {
      decoded.mutable_hypotheses()->DeleteSubrange(1, decoded.hypotheses_size() - 1);
    }
    queue_ms_ += decoded.queue_ms();
    compute_ms_ += decoded.compute_ms();
    *response_.add_results()->mutable_decoded() = std::move(decoded);
  }

  // The error of the first sentence is the call's, whichever ended first.
  void Fail(size_t number, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    num_model_faults_ += absl::IsInternal(why) ? 1 : 0;
    ++num_failed_;
    *response_.add_results()->mutable_error() = status::ToRpcStatus(why, status::Room::kBody);
    if (failure_.ok() || number < failed_) {
      failed_ = number;
      failure_ = why;
    }
  }

  // False if the call is answered.
  bool EndPass() {
    absl::Status status = Outcome();
    if (status.ok() && pass_ < models_.size()) {
      CountPass();
      JoinTexts();
      ++pass_;
      status = BeginPass();
    } else if (pass_ < models_.size()) {
      CountPass();
    }
    if (status.ok() && pass_ < models_.size()) {
      return true;
    }
    Answer(status);
    return false;
  }

  absl::Status Outcome() {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) {
      return absl::OkStatus();
    }
    if (caller_.cancelled != nullptr && caller_.cancelled->cancelled()) {
      return caller_.cancelled->Outcome(caller_.deadline, SteadyNow());
    }
    const std::string field = absl::StrCat("texts[", sentences_[failed_].text_number, "]");
    return status::WithFields(failure_, [&](absl::string_view) { return field; });
  }

  // The texts as the model of this pass translates them.
  void JoinTexts() {
    const bool separate = SeparatesWords(models_[pass_]->config().translation().target_language());
    size_t first = 0;  // sentence of the text
    for (size_t i = 0; i < texts_.size(); ++i) {
      const auto count =
          static_cast<size_t>(std::count_if(pieces_[i].begin(), pieces_[i].end(),
                                            [](const Piece& piece) { return piece.is_sentence; }));
      const absl::Span<const Sentence> sentences =
          absl::MakeConstSpan(sentences_).subspan(first, count);
      std::vector<std::string> ways;  // the best first
      for (size_t rank = 0; rank < (IsLastPass() ? num_alternatives_ + 1 : 1); ++rank) {
        std::vector<std::string> translations;
        for (const Sentence& sentence : sentences) {
          const size_t found = sentence.found.size();
          translations.push_back(found == 0 ? "" : sentence.found[rank < found ? rank : 0]);
        }
        std::string way = JoinPieces(pieces_[i], translations, separate);
        if (std::find(ways.begin(), ways.end(), way) == ways.end()) {
          ways.push_back(std::move(way));
        }
      }
      if (IsLastPass()) {
        further_.emplace_back(ways.begin() + 1, ways.end());
      }
      joined_.push_back(std::move(ways[0]));
      first += count;
    }
    texts_.swap(joined_);
    joined_.clear();
  }

  void CountPass() {
    absl::MutexLock lock(&mutex_);
    core_.metrics().CountSources(*models_[pass_], response_);
    core_.quarantine().Count(*models_[pass_], response_.results_size() - num_failed_,
                             num_model_faults_, SteadyNow());
  }

  void Answer(const absl::Status& status) {
    serving::CallWork work;
    work.num_sources = num_sentences_;
    work.queue_ms = queue_ms_;
    work.compute_ms = compute_ms_;
    work.num_failed = num_failed_;
    core_.calls().Count(caller_, models_.empty() ? nullptr : models_.back().get(), status, started_,
                        work);
    if (!status.ok() && num_sentences_ == 0) {
      core_.metrics().CountRejection(status);
    }
    if (!status.ok()) {
      done_(status);
      return;
    }
    v1::TranslateResponse response;
    response.set_source_language(route_.source);
    response.set_target_language(route_.target);
    for (size_t i = 0; i < texts_.size(); ++i) {
      v1::Translation& translation = *response.add_translations();
      translation.set_text(std::move(texts_[i]));
      for (size_t k = 0; i < further_.size() && k < further_[i].size(); ++k) {
        translation.add_alternatives(std::move(further_[i][k]));
      }
    }
    done_(std::move(response));
  }

  Translator& translator_;
  serving::Core& core_;
  const serving::Caller caller_;
  const absl::Time started_;
  const TranslateDone done_;
  serving::MemoryAccount::Hold hold_;
  Route route_;
  std::vector<ModelPtr> models_;  // of the route
  uint64_t call_ = 0;
  size_t num_alternatives_ = 0;
  std::vector<std::string> texts_;  // as the models so far translated them
  std::vector<std::string> joined_;
  std::vector<std::vector<std::string>> further_;  // alternatives of each text
  // Of the pass.
  size_t pass_ = 0;
  std::shared_ptr<const engine::ResolvedOptions> options_;
  std::vector<std::vector<Piece>> pieces_;  // of each text
  std::vector<Sentence> sentences_;         // of all texts, in order
  int num_sentences_ = 0;                   // of all passes

  absl::Mutex mutex_;
  bool is_pumping_ ABSL_GUARDED_BY(mutex_) = true;
  // The first sentence that has not been handed to the engine. Written by who pumps.
  size_t next_ = 0;
  std::vector<size_t> again_ ABSL_GUARDED_BY(mutex_);  // that the queue refused
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_in_flight_ ABSL_GUARDED_BY(mutex_) = kMaxInFlight;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  size_t failed_ ABSL_GUARDED_BY(mutex_) = 0;  // the sentence that it is of
  v1::DecodeResponse response_;                // for metrics
  int num_failed_ = 0;
  int num_model_faults_ = 0;
  double queue_ms_ = 0;
  double compute_ms_ = 0;
};

void Translator::Translate(absl::StatusOr<v1::TranslateRequest> request,
                           const serving::Caller& caller, TranslateDone done) {
  std::make_shared<Call>(*this, caller, std::move(done))->Start(std::move(request));
}

std::pair<std::vector<ModelPtr>, Directions> Translator::Served() const {
  std::vector<ModelPtr> models;
  std::vector<Direction> directions;
  for (ModelPtr& model : core_.models().AllServed()) {  // by name, the newest version first
    const v1::TranslationConfig& translation = model->config().translation();
    const bool is_newest = models.empty() || models.back()->name() != model->name();
    if (model->config().has_translation() && is_newest) {
      directions.push_back({translation.source_language(), translation.target_language()});
      models.push_back(std::move(model));
    }
  }
  return {std::move(models), Directions(std::move(directions))};
}

absl::StatusOr<std::shared_ptr<const SentenceSplitter>> Translator::SplitterFor(
    const std::string& language) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<const SentenceSplitter>& splitter = splitters_[language];
  if (splitter == nullptr) {
    absl::StatusOr<std::unique_ptr<SentenceSplitter>> made = SentenceSplitter::Create(language);
    BW_RETURN_IF_ERROR(made.status());
    splitter = *std::move(made);
  }
  return splitter;
}

}  // namespace beamwright::translate
