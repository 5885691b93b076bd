#include "server/translate/translate.h"

#include <algorithm>
#include <map>
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
#include "ops/base/utf8.h"
#include "server/translate/alignment.h"
#include "server/translate/detect.h"
#include "server/translate/join_unit.h"
#include "server/translate/markup.h"

namespace beamwright::translate {
namespace {

using serving::ModelPtr;

// Sentences of a call in the engine at a time.
constexpr size_t kMaxInFlight = 64;
// Of a text in its parsed form, its pieces and its sentences' results, for each of its bytes.
constexpr int64_t kHeldPerByte = 12;
constexpr int64_t kHeldPerByteOfMarkup = 48;  // each tag is an element

absl::Status CheckRequest(const v1::TranslateRequest& request) {
  status::Faults faults;
  bundle::CheckRules(request, "", faults);
  for (const auto& [field, value] : {std::pair("source_language", &request.source_language()),
                                     {"target_language", &request.target_language()}}) {
    if (value->empty()) {
      faults.Add(field, "is not set");
    }
  }
  for (int i = 0; i < request.glossary_size(); ++i) {
    if (request.glossary(i).source().empty() || request.glossary(i).target().empty()) {
      faults.Add(absl::StrCat("glossary[", i, "]"), "has an empty source or target");
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

// One call. For each source language it passes over the texts once for each model of the route. Its
// callbacks share it.
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
    } catch (const std::bad_alloc&) {
      status = status::OutOfMemory();
    }
    if (status.ok()) {
      StartGroup();
    } else {
      Refuse(status);
    }
  }

 private:
  // Texts of one language, and the models that translate it one after the other.
  struct Group {
    Route route;
    std::vector<serving::ServedModelPtr> models;
    std::vector<int> texts;  // numbers, ascending
  };

  void Refuse(const absl::Status& status) {
    const auto self = shared_from_this();
    if (!core_.state().Hold([self, status] { self->Answer(status); })) {
      Answer(status);
    }
  }

  // Begins with the texts of the next language.
  void StartGroup() {
    pass_ = 0;
    units_.clear();
    places_.clear();
    further_.clear();
    for (const int number : group().texts) {
      for (MarkedText& unit : documents_[static_cast<size_t>(number)].units) {
        units_.push_back(std::move(unit));
        places_.push_back({number, {}});
      }
      documents_[static_cast<size_t>(number)].units.clear();
    }
    StartPass();
  }

  // Waits for the model of the pass, which may have to be loaded, and begins. No model is held
  // meanwhile: two calls that each held what the other one needs room for would wait for ever.
  void StartPass() {
    model_ = nullptr;
    if (pass_ == group().models.size()) {
      Begin(absl::OkStatus());
      return;
    }
    const serving::ServedModel& served = *group().models[pass_];
    core_.models().Await(
        served.name(), served.version(), caller_.deadline,
        [self = shared_from_this()](const absl::Status& ready) { self->Begin(ready); });
  }

  void Begin(absl::Status status) {
    try {
      if (status.ok()) {
        status = BeginPass();
      }
    } catch (const std::bad_alloc&) {
      status = status::OutOfMemory();
    }
    if (status.ok()) {
      Pump();
    } else if (pass_ == 0 && group_ == 0) {
      Refuse(status);
    } else {
      Answer(status);
    }
  }

  // A sentence, its place in the pass and what was found for it, best first.
  struct Sentence {
    absl::string_view text;
    size_t unit;
    std::shared_ptr<const engine::ResolvedOptions> options;
    bool has_glossary;
    std::vector<FoundSentence> found;
  };
  // Of a unit, in the numbers of units_ and of texts.
  struct UnitPlace {
    int text_number;
    std::vector<Piece> pieces;
  };

  absl::Status Open(absl::StatusOr<v1::TranslateRequest>& request) {
    BW_RETURN_IF_ERROR(core_.state().CheckAccepting());
    BW_RETURN_IF_ERROR(request.status());
    BW_RETURN_IF_ERROR(CheckRequest(*request));
    auto [models, directions] = translator_.Served();
    BW_RETURN_IF_ERROR(FindSources(directions, *request));
    BW_RETURN_IF_ERROR(FindGroups(models, directions, *request));
    num_alternatives_ = static_cast<size_t>(request->alternatives());
    const bool is_plain = request->format() <= v1::TEXT_FORMAT_PLAIN;
    const int64_t per_byte = is_plain ? kHeldPerByte : kHeldPerByteOfMarkup;
    int64_t bytes = 0;
    for (const std::string& text : request->texts()) {
      bytes += static_cast<int64_t>(text.size());
    }
    BW_ASSIGN_OR_RETURN(hold_, core_.memory().Reserve(bytes * per_byte));
    call_ = core_.NextCall();
    BW_RETURN_IF_ERROR(Parse(*request));
    response_.set_target_language(groups_[0].route.target);
    for (int i = 0; i < request->texts_size(); ++i) {
      response_.add_translations();
    }
    request_ = *std::move(request);
    return absl::OkStatus();
  }

  // The language of each text, and of all together.
  absl::Status FindSources(const Directions& directions, const v1::TranslateRequest& request) {
    const auto num_texts = static_cast<size_t>(request.texts_size());
    if (!absl::EqualsIgnoreCase(request.source_language(), kAuto)) {
      sources_.assign(num_texts, {request.source_language(), 0});
      return absl::OkStatus();
    }
    constexpr size_t kMostBytes = size_t{64} << 10;
    constexpr double kSure = 50;  // beyond it CLD2 is, and it means most of the text
    const bool is_html =
        request.format() == v1::TEXT_FORMAT_HTML || request.format() == v1::TEXT_FORMAT_XML;
    std::string all;
    for (int i = 0; i < request.texts_size() && all.size() <= kMostBytes; ++i) {
      absl::StrAppend(&all, request.texts(i), "\n");
    }
    const auto resolve = [&](absl::string_view tag) { return directions.Resolve(tag); };
    auto detected = DetectLanguages(all, is_html, resolve);
    if (!detected.ok()) {
      return status::InvalidField("source_language", detected.status().message());
    }
    if (detected->empty()) {
      return status::InvalidField(
          "source_language",
          "could not be found out: the texts seem to be in no language that "
          "is served; name the language");
    }
    sources_.assign(num_texts, (*detected)[0]);
    response_.set_source_language((*detected)[0].language);
    response_.set_confidence((*detected)[0].confidence);
    for (int i = 0; i < request.texts_size() && num_texts > 1; ++i) {
      detected = DetectLanguages(request.texts(i), is_html, resolve);
      if (detected.ok() && !detected->empty() && (*detected)[0].confidence > kSure &&
          directions.Find((*detected)[0].language, request.target_language()).ok()) {
        sources_[static_cast<size_t>(i)] = (*detected)[0];
      }
    }
    return absl::OkStatus();
  }

  absl::Status FindGroups(const std::vector<serving::ServedModelPtr>& models,
                          const Directions& directions, const v1::TranslateRequest& request) {
    std::map<std::string, size_t> groups;  // by language
    for (int i = 0; i < request.texts_size(); ++i) {
      const std::string& language = sources_[static_cast<size_t>(i)].language;
      const auto [found, is_new] = groups.try_emplace(language, groups_.size());
      if (is_new) {
        BW_ASSIGN_OR_RETURN(Route route, directions.Find(language, request.target_language()));
        groups_.push_back({std::move(route), {}, {}});
        BW_RETURN_IF_ERROR(FindModels(models, request, groups_.back()));
      }
      groups_[found->second].texts.push_back(i);
    }
    if (response_.source_language().empty()) {
      response_.set_source_language(groups_[0].route.source);
    }
    return absl::OkStatus();
  }

  absl::Status FindModels(const std::vector<serving::ServedModelPtr>& models,
                          const v1::TranslateRequest& request, Group& group) const {
    for (const size_t number : group.route.directions) {
      group.models.push_back(models[number]);
      BW_RETURN_IF_ERROR(models[number]->CheckPause(started_));
      if (const ModelPtr model = models[number]->model()) {
        BW_RETURN_IF_ERROR(core_.quarantine().Check(*model, started_));
      }
    }
    if (group.models.size() > 1 && !request.glossary().empty()) {
      return status::InvalidField("glossary", "needs a model that translates from ",
                                  group.route.source, " to ", group.route.target, " directly");
    }
    return absl::OkStatus();
  }

  // Cuts the texts into units, except those that stay as they are.
  absl::Status Parse(const v1::TranslateRequest& request) {
    documents_.resize(static_cast<size_t>(request.texts_size()));
    for (const Group& group : groups_) {
      for (const int i : group.models.empty() ? std::vector<int>() : group.texts) {
        absl::StatusOr<Document> document = ParseDocument(request.texts(i), request);
        if (!document.ok()) {
          return status::InvalidField(absl::StrCat("texts[", i, "]"), document.status().message());
        }
        documents_[static_cast<size_t>(i)] = *std::move(document);
      }
    }
    return absl::OkStatus();
  }

  const Group& group() const { return groups_[group_]; }

  bool IsLastPass() const { return pass_ + 1 >= group().models.size(); }

  // Splits the texts for the next model.
  absl::Status BeginPass() {
    sentences_.clear();
    decoded_.Clear();
    next_ = 0;
    if (pass_ == group().models.size()) {
      return absl::OkStatus();
    }
    const serving::ServedModel& served = *group().models[pass_];
    BW_ASSIGN_OR_RETURN(model_, core_.models().Lookup(served.name(), served.version()));
    const engine::DecodeModel& model = *model_;
    BW_RETURN_IF_ERROR(core_.quarantine().Check(model, SteadyNow()));
    v1::DecodeOptions options;
    const auto resolve = [&]() -> absl::StatusOr<std::shared_ptr<const engine::ResolvedOptions>> {
      auto resolved = engine::ResolveOptions(model, options);
      return resolved.ok()
                 ? std::move(resolved)
                 : status::WithFields(resolved.status(), [&](absl::string_view) {
                     return options.required_sequences().empty() ? "alternatives" : "glossary";
                   });
    };
    if (IsLastPass() && num_alternatives_ > 0) {
      const auto wanted = static_cast<int32_t>(num_alternatives_) + 1;
      options.set_n_best(wanted);
      options.set_beam_size(std::max(wanted, model.config().default_options().beam_size()));
    }
    BW_ASSIGN_OR_RETURN(options_, resolve());
    // Markup goes where attention says, or, with a model without it, to the same share of the text.
    options.set_attention(v1::ATTENTION_HARD);
    const auto with_attention = engine::ResolveOptions(model, options);
    marked_options_ = with_attention.ok() ? *with_attention : options_;
    if (!with_attention.ok()) {
      options.clear_attention();
    }
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
    for (size_t i = 0; i < units_.size(); ++i) {
      places_[i].pieces = splitter->Split(units_[i].text, most, count);
      for (const Piece& piece : places_[i].pieces) {
        if (!piece.is_sentence) {
          continue;
        }
        sentences_.push_back(
            {piece.text, i, units_[i].elements.empty() ? options_ : marked_options_, false, {}});
        AddTerms(piece.text, options);
        if (!options.required_sequences().empty()) {
          BW_ASSIGN_OR_RETURN(sentences_.back().options, resolve());
          sentences_.back().has_glossary = true;
        }
      }
    }
    num_sentences_ += static_cast<int>(sentences_.size());
    return absl::OkStatus();
  }

  // Requires the target of each term that the sentence has. A shortlist might not have its tokens.
  void AddTerms(absl::string_view sentence, v1::DecodeOptions& options) const {
    constexpr int kLeastBeam = 4;
    options.clear_required_sequences();
    for (const v1::GlossaryTerm& term : request_.glossary()) {
      if (HasTerm(sentence, term.source())) {
        options.add_required_sequences()->set_text(term.target());
      }
    }
    if (!options.required_sequences().empty()) {
      const int beam = model_->config().default_options().beam_size();
      options.set_beam_size(std::max({kLeastBeam, beam, options.n_best()}));
      options.set_lexical_shortlist(false);
    }
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
      if (batch.empty()) {
        EndPass();
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
        model_, std::move(source), sentences_[number].options, options,
        [self = shared_from_this(), number](absl::StatusOr<v1::Decoded> decoded) {
          self->Take(number, std::move(decoded));
        });
  }

  // On the engine's thread, or within Submit.
  void Take(size_t number, absl::StatusOr<v1::Decoded> decoded) {
    bool resumes = false;
    std::vector<FoundSentence> found = FoundOf(number, decoded);
    {
      absl::MutexLock lock(&mutex_);
      --in_flight_;
      if (decoded.ok()) {
        sentences_[number].found = std::move(found);
        Count(*std::move(decoded));
        most_in_flight_ = std::min(kMaxInFlight, most_in_flight_ + 1);
      } else if (in_flight_ > 0 && IsForLaterOf(decoded.status())) {
        again_.push_back(number);
        most_in_flight_ = in_flight_;
      } else if (sentences_[number].has_glossary && absl::IsFailedPrecondition(decoded.status())) {
        // No translation within the longest length has all terms.
        sentences_[number].has_glossary = false;
        sentences_[number].options = marked_options_;
        again_.push_back(number);
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

  std::vector<FoundSentence> FoundOf(size_t number,
                                     const absl::StatusOr<v1::Decoded>& decoded) const {
    std::vector<FoundSentence> found;
    const Sentence& sentence = sentences_[number];
    for (int i = 0; decoded.ok() && i < decoded->hypotheses_size(); ++i) {
      const v1::Hypothesis& hypothesis = decoded->hypotheses(i);
      found.push_back({hypothesis.text(), {}});
      if (!units_[sentence.unit].elements.empty()) {
        const engine::DecodeModel& model = *model_;
        found.back().words = AlignWords(model.source(), sentence.text, model.target(), hypothesis,
                                        SeparatesTarget());
      }
    }
    return found;
  }

  bool SeparatesTarget() const {
    return SeparatesWords(model_->config().translation().target_language());
  }

  void Count(v1::Decoded decoded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Metrics count the best hypothesis.
    if (decoded.hypotheses_size() > 1) {
      decoded.mutable_hypotheses()->DeleteSubrange(1, decoded.hypotheses_size() - 1);
    }
    queue_ms_ += decoded.queue_ms();
    compute_ms_ += decoded.compute_ms();
    *decoded_.add_results()->mutable_decoded() = std::move(decoded);
  }

  // The error of the first sentence is the call's, whichever ended first.
  void Fail(size_t number, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    num_model_faults_ += absl::IsInternal(why) ? 1 : 0;
    ++num_failed_;
    *decoded_.add_results()->mutable_error() = status::ToRpcStatus(why, status::Room::kBody);
    if (failure_.ok() || number < failed_) {
      failed_ = number;
      failure_ = why;
    }
  }

  // Starts the next pass or the next language, or answers the call.
  void EndPass() {
    absl::Status status = Outcome();
    const bool is_translated = pass_ < group().models.size();
    if (is_translated) {
      CountPass();
    }
    if (!status.ok()) {
      Answer(status);
      return;
    }
    if (is_translated) {
      JoinTexts();
    }
    if (!IsLastPass()) {
      ++pass_;
      StartPass();
      return;
    }
    WriteGroup();
    if (++group_ == groups_.size()) {
      Answer(status);
    } else {
      StartGroup();
    }
  }

  absl::Status Outcome() {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) {
      return absl::OkStatus();
    }
    if (caller_.cancelled != nullptr && caller_.cancelled->cancelled()) {
      return caller_.cancelled->Outcome(caller_.deadline, SteadyNow());
    }
    const std::string field =
        absl::StrCat("texts[", places_[sentences_[failed_].unit].text_number, "]");
    return status::WithFields(failure_, [&](absl::string_view) { return field; });
  }

  // The units as the model of this pass translates them.
  void JoinTexts() {
    std::vector<MarkedText> joined;
    size_t first = 0;  // sentence of the unit
    for (size_t i = 0; i < units_.size(); ++i) {
      size_t behind = first;
      while (behind < sentences_.size() && sentences_[behind].unit == i) {
        ++behind;
      }
      const auto sentences = absl::MakeConstSpan(sentences_).subspan(first, behind - first);
      std::vector<MarkedText> ways;  // the best first
      for (size_t rank = 0; rank < (IsLastPass() ? num_alternatives_ + 1 : 1); ++rank) {
        ways.push_back(Joined(i, sentences, rank));
      }
      joined.push_back(std::move(ways[0]));
      if (IsLastPass()) {
        further_.emplace_back(std::make_move_iterator(ways.begin() + 1),
                              std::make_move_iterator(ways.end()));
      }
      first = behind;
    }
    units_ = std::move(joined);  // last, since pieces are views into the old ones
  }

  // A unit with the translations of this rank; of a sentence that has fewer, with the best.
  MarkedText Joined(size_t number, absl::Span<const Sentence> sentences, size_t rank) const {
    std::vector<const FoundSentence*> found;
    for (const Sentence& sentence : sentences) {
      const size_t count = sentence.found.size();
      found.push_back(count == 0 ? nullptr : &sentence.found[rank < count ? rank : 0]);
    }
    return JoinUnit(units_[number], places_[number].pieces, found, SeparatesTarget());
  }

  void CountPass() {
    absl::MutexLock lock(&mutex_);
    core_.metrics().CountSources(*model_, decoded_);
    core_.quarantine().Count(*model_, decoded_.results_size() - num_failed_, num_model_faults_,
                             SteadyNow());
  }

  void Answer(const absl::Status& status) {
    serving::CallWork work;
    work.num_sources = num_sentences_;
    work.queue_ms = queue_ms_;
    work.compute_ms = compute_ms_;
    work.num_failed = num_failed_;
    core_.calls().Count(caller_, model_.get(), status, started_, work);
    if (!status.ok() && num_sentences_ == 0) {
      core_.metrics().CountRejection(status);
    }
    if (!status.ok()) {
      done_(status);
      return;
    }
    done_(std::move(response_));
  }

  // The translations of the language's texts.
  void WriteGroup() {
    size_t unit = 0;
    for (const int number : group().texts) {
      v1::Translation& translation = *response_.mutable_translations(number);
      if (const DetectedLanguage& source = sources_[static_cast<size_t>(number)];
          source.confidence > 0) {
        translation.set_source_language(group().route.source);
        translation.set_confidence(source.confidence);
      }
      if (group().models.empty()) {  // a language into itself
        translation.set_text(std::move(*request_.mutable_texts(number)));
        continue;
      }
      size_t behind = unit;
      while (behind < places_.size() && places_[behind].text_number == number) {
        ++behind;
      }
      WriteText(documents_[static_cast<size_t>(number)], unit, behind, translation);
      unit = behind;
    }
  }

  // The document whose units are from `first` to before `behind`.
  void WriteText(const Document& document, size_t first, size_t behind,
                 v1::Translation& translation) {
    translation.set_text(
        WriteDocument(document, absl::MakeConstSpan(units_).subspan(first, behind - first)));
    for (size_t rank = 0; rank < num_alternatives_; ++rank) {
      std::vector<MarkedText> units;
      for (size_t i = first; i < behind; ++i) {
        units.push_back(std::move(further_[i][rank]));
      }
      std::string text = WriteDocument(document, units);
      const auto& others = translation.alternatives();
      if (text != translation.text() &&
          std::find(others.begin(), others.end(), text) == others.end()) {
        translation.add_alternatives(std::move(text));
      }
    }
  }

  Translator& translator_;
  serving::Core& core_;
  const serving::Caller caller_;
  const absl::Time started_;
  const TranslateDone done_;
  serving::MemoryAccount::Hold hold_;
  std::vector<DetectedLanguage> sources_;  // of each text; confidence 0: as the request has it
  std::vector<Group> groups_;
  uint64_t call_ = 0;
  size_t num_alternatives_ = 0;
  v1::TranslateRequest request_;
  v1::TranslateResponse response_;
  std::vector<Document> documents_;  // of each text
  // Of the language's texts.
  size_t group_ = 0;
  std::vector<MarkedText> units_;                 // as the models so far translated them
  std::vector<std::vector<MarkedText>> further_;  // of each unit, by rank
  // Of the pass.
  size_t pass_ = 0;
  ModelPtr model_;
  std::shared_ptr<const engine::ResolvedOptions> options_;
  std::shared_ptr<const engine::ResolvedOptions> marked_options_;  // with attention
  std::vector<UnitPlace> places_;                                  // of each unit
  std::vector<Sentence> sentences_;                                // of all units, in order
  int num_sentences_ = 0;                                          // of all passes

  absl::Mutex mutex_;
  bool is_pumping_ ABSL_GUARDED_BY(mutex_) = true;
  // The first sentence that has not been handed to the engine. Written by who pumps.
  size_t next_ = 0;
  std::vector<size_t> again_ ABSL_GUARDED_BY(mutex_);  // that the queue refused
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_in_flight_ ABSL_GUARDED_BY(mutex_) = kMaxInFlight;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  size_t failed_ ABSL_GUARDED_BY(mutex_) = 0;  // the sentence that it is of
  v1::DecodeResponse decoded_;                 // for metrics
  int num_failed_ = 0;
  int num_model_faults_ = 0;
  double queue_ms_ = 0;
  double compute_ms_ = 0;
};

void Translator::Translate(absl::StatusOr<v1::TranslateRequest> request,
                           const serving::Caller& caller, TranslateDone done) {
  std::make_shared<Call>(*this, caller, std::move(done))->Start(std::move(request));
}

absl::StatusOr<std::vector<DetectedLanguage>> Translator::Detect(absl::string_view text) const {
  const Directions directions = Served().second;
  return DetectLanguages(text, /*is_html=*/false,
                         [&](absl::string_view tag) { return directions.Resolve(tag); });
}

std::pair<std::vector<serving::ServedModelPtr>, Directions> Translator::Served() const {
  std::vector<serving::ServedModelPtr> models;
  std::vector<Direction> directions;
  for (serving::ServedModelPtr& model :
       core_.models().AllListed()) {  // by name, the newest version first
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
