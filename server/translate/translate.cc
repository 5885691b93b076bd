// A Translate call as an object (Translator::Call) that its callbacks share. Texts go in, each with
// a source language; translations come out. No thread waits: each step ends by starting work whose
// callback is the next step.
//
// 1. Open: the document, if there is one, becomes texts (OpenDocument); PlanCall finds the
//    languages and the route from each to the target; Parse cuts texts into units, which are
//    paragraphs with their markup taken out (MarkedText).
// 2. StartGroup: a group is the texts of one source language. Its route has one model or several
//    (de -> en -> fr).
// 3. StartPass: a pass translates the group's units with one model. It waits until the model is
//    loaded.
// 4. BeginPass: options of the model, and units cut into sentences (SentenceSplitter). Each
//    sentence has its glossary terms (AddTerms), and attention where markup must be placed.
// 5. Decode: SentenceDecoder keeps a bounded number of sentences in the engine.
// 6. EndPass: JoinTexts makes units of the sentences' translations, which are the input of the next
//    pass. After the last pass WriteGroup puts the markup back and writes the texts; then the next
//    group, or Answer.
//
//   "<p>Guten <b>Tag</b>. Wie geht's?</p>"
//     unit        "Guten Tag. Wie geht's?" and the place of <b>
//     sentences   "Guten Tag." (with attention)  "Wie geht's?"
//     joined      "Good day. How are you?", with <b> where attention says "Tag" went
//
// A call holds no model between two passes: two calls that each held the model whose memory the
// other needs would wait for ever.
#include "server/translate/translate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"
#include "ops/base/utf8.h"
#include "server/translate/directions.h"
#include "server/translate/markup.h"
#include "server/translate/office_files.h"
#include "server/translate/sentence_decoder.h"

namespace beamwright::translate {
namespace {

using serving::ModelPtr;

// Of a text in its parsed form, its pieces and its sentences' results, for each of its bytes.
constexpr int64_t kHeldPerByte = 12;
constexpr int64_t kHeldPerByteOfMarkup = 48;
constexpr int64_t kHeldPerByteOfOffice = 96;  // an element has the tags of runs around it
// And for each tag of markup: an event, while lists of events grow, and an element.
constexpr int64_t kHeldPerTag = 400;
// What is found for a sentence, however short it is.
constexpr int64_t kHeldPerSentence = 1024;

}  // namespace

// One call. For each source language it passes over the texts once for each model of the route. Its
// callbacks share it.
class Translator::Call : public std::enable_shared_from_this<Call> {
 public:
  // part: null, the answer is one message.
  Call(Translator& translator, const serving::Caller& caller, TranslatePart part,
       TranslateDone done)
      : translator_(translator),
        core_(translator.core_),
        caller_(caller),
        started_(SteadyNow()),
        parts_(std::move(part)),
        done_(std::move(done)) {}

  void Start(absl::StatusOr<v1::TranslateRequest> request) {
    const absl::Status status = status::OrOutOfMemory([&] { return Open(request); });
    if (status.ok()) {
      StartGroup();
    } else {
      Refuse(status);
    }
  }

 private:
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

  // Waits for the model of the pass, which may have to be loaded, and begins.
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
    if (status.ok()) {
      status = status::OrOutOfMemory([this] { return BeginPass(); });
    }
    if (status.ok()) {
      Decode();
    } else if (pass_ == 0 && group_ == 0) {
      Refuse(status);
    } else {
      Answer(status);
    }
  }

  // A unit's text and its pieces: sentences and what is between them.
  struct UnitPlace {
    int text_number;
    std::vector<Piece> pieces;
  };

  absl::Status Open(absl::StatusOr<v1::TranslateRequest>& request) {
    BW_RETURN_IF_ERROR(core_.state().CheckAccepting());
    BW_RETURN_IF_ERROR(request.status());
    BW_RETURN_IF_ERROR(OpenDocument(*request));
    BW_ASSIGN_OR_RETURN(plan_,
                        PlanCall(core_, *request, started_, parts_.is_stream() && !is_office_));
    num_alternatives_ = static_cast<size_t>(request->alternatives());
    const bool is_plain = request->format() <= v1::TEXT_FORMAT_PLAIN;
    const int64_t per_byte = is_plain     ? kHeldPerByte
                             : is_office_ ? kHeldPerByteOfOffice
                                          : kHeldPerByteOfMarkup;
    int64_t bytes = 0;
    int64_t held = 0;
    for (const std::string& text : request->texts()) {
      bytes += static_cast<int64_t>(text.size());
      held += is_plain ? 0 : std::count(text.begin(), text.end(), '<') * kHeldPerTag;
    }
    parts_.Begin(bytes);
    BW_ASSIGN_OR_RETURN(hold_, core_.memory().Reserve(held + bytes * per_byte));
    call_ = core_.NextCall();
    BW_RETURN_IF_ERROR(Parse(*request));
    response_.set_source_language(plan_.source.language);
    response_.set_confidence(plan_.source.confidence);
    response_.set_target_language(plan_.groups[0].route.target);
    for (int i = 0; i < request->texts_size(); ++i) {
      response_.add_translations();
    }
    request_ = *std::move(request);
    return absl::OkStatus();
  }

  // The parts of an office file become the request's texts.
  absl::Status OpenDocument(v1::TranslateRequest& request) {
    const OfficeKind kind = OfficeKindOf(request.format());
    is_office_ = kind != OfficeKind::kNone;
    status::Faults faults;
    if (is_office_ == request.document().empty()) {
      faults.Add("document", is_office_ ? "is not set" : "is set, but format is not DOCX or ODT");
    } else if (is_office_ && !request.texts().empty()) {
      faults.Add("texts", "are set, but format is that of a document");
    }
    if (is_office_ && request.alternatives() > 0) {
      faults.Add("alternatives", "are not given of documents");
    }
    BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
    if (!is_office_) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(file_hold_,
                        core_.memory().Reserve(static_cast<int64_t>(request.document().size()) * 2 +
                                               static_cast<int64_t>(kMaxOfficeXmlBytes)));
    auto parts = ReadOfficeFile(request.document(), kind);
    if (!parts.ok()) {
      return status::InvalidField("document", parts.status().message());
    }
    for (OfficePart& part : *parts) {
      request.add_texts(std::move(part.xml));
      part_names_.push_back(std::move(part.name));
    }
    return absl::OkStatus();
  }

  // The field of a text, and in a document also the name of its part, in front of `message`.
  absl::Status AtText(size_t number, absl::string_view message) const {
    return is_office_
               ? status::InvalidField("document", absl::StrCat(part_names_[number], ": ", message))
               : status::InvalidField(absl::StrCat("texts[", number, "]"), message);
  }

  // The document with the parts' translations.
  absl::Status WriteOffice() {
    std::vector<OfficePart> parts;
    for (int i = 0; i < response_.translations_size(); ++i) {
      parts.push_back({part_names_[static_cast<size_t>(i)],
                       std::move(*response_.mutable_translations(i)->mutable_text())});
    }
    response_.clear_translations();
    BW_ASSIGN_OR_RETURN(*response_.mutable_document(), WriteOfficeFile(request_.document(), parts));
    return absl::OkStatus();
  }

  // Cuts the texts into units, except those that stay as they are.
  absl::Status Parse(const v1::TranslateRequest& request) {
    documents_.resize(static_cast<size_t>(request.texts_size()));
    for (const LanguageGroup& group : plan_.groups) {
      for (const int i : group.models.empty() ? std::vector<int>() : group.texts) {
        absl::StatusOr<Document> document = ParseDocument(request.texts(i), request);
        if (!document.ok()) {
          return AtText(static_cast<size_t>(i), document.status().message());
        }
        documents_[static_cast<size_t>(i)] = *std::move(document);
      }
    }
    return is_office_ ? CheckCharacters() : absl::OkStatus();
  }

  // Limits the characters of an office file: those of its texts, without markup.
  absl::Status CheckCharacters() const {
    int64_t characters = 0;
    for (const Document& document : documents_) {
      for (const MarkedText& unit : document.units) {
        characters += CountCharacters(unit.text);
      }
    }
    return characters <= kMaxCharacters
               ? absl::OkStatus()
               : status::InvalidField("document", "has ", characters, " characters; at most ",
                                      kMaxCharacters, " are allowed in a call");
  }

  const LanguageGroup& group() const { return plan_.groups[group_]; }

  bool IsLastPass() const { return pass_ + 1 >= group().models.size(); }

  // Splits the texts for the next model.
  absl::Status BeginPass() {
    // 1. The model; without one, the text stays as it is.
    sentences_.clear();
    sentences_hold_.Release();
    if (pass_ == group().models.size()) {
      return absl::OkStatus();
    }
    const serving::ServedModel& served = *group().models[pass_];
    BW_ASSIGN_OR_RETURN(model_, core_.models().Lookup(served.name(), served.version()));
    const engine::DecodeModel& model = *model_;
    BW_RETURN_IF_ERROR(core_.quarantine().Check(model, SteadyNow()));
    // 2. The options, with and without attention. Faults are named by the field of the request that
    //    they follow from.
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
    // Markup goes where attention says; with a model without attention, to the same share of the
    // text.
    options.set_attention(v1::ATTENTION_HARD);
    const auto with_attention = engine::ResolveOptions(model, options);
    marked_options_ = with_attention.ok() ? *with_attention : options_;
    if (!with_attention.ok()) {
      options.clear_attention();
    }
    // 3. Sentences of at most `most` tokens, without the tokens that the codec adds to each.
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
      const auto more = static_cast<int64_t>(places_[i].pieces.size()) * kHeldPerSentence;
      if (!sentences_hold_.Resize(sentences_hold_.bytes() + more)) {
        return core_.memory().Refusal(sentences_hold_.bytes() + more);
      }
      for (const Piece& piece : places_[i].pieces) {
        if (!piece.is_sentence) {
          continue;
        }
        const bool is_marked = !units_[i].elements.empty();
        sentences_.push_back(
            {piece.text, i, is_marked ? marked_options_ : options_, nullptr, is_marked, {}});
        AddTerms(piece.text, options);
        if (!options.required_sequences().empty()) {
          BW_ASSIGN_OR_RETURN(sentences_.back().options, resolve());
          sentences_.back().without_glossary = marked_options_;
        }
      }
    }
    num_sentences_ += static_cast<int>(sentences_.size());
    return absl::OkStatus();
  }

  // Requires the target of each glossary term in the sentence, without a lexical shortlist, which
  // might lack the target's tokens.
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

  void Decode() {
    engine::CallOptions options;
    options.cancelled = caller_.cancelled;
    options.deadline = caller_.deadline;
    options.tenant = caller_.tenant;
    options.priority = caller_.priority;
    options.call = call_;
    options.num_sources = static_cast<int>(sentences_.size());
    SentenceDecoder::Progress progress;
    if (parts_.is_stream()) {
      progress = [this, num_sentences = sentences_.size()](size_t num_done) {
        const double passes = static_cast<double>(pass_) +
                              static_cast<double>(num_done) / static_cast<double>(num_sentences);
        parts_.Report(GroupBytes(), passes / static_cast<double>(group().models.size()), response_);
      };
    }
    SentenceDecoder::Start(
        core_, model_, options, std::move(sentences_), most_in_flight_,
        [self = shared_from_this()](const DecodedSentences& decoded) { self->EndPass(decoded); },
        std::move(progress));
  }

  int64_t GroupBytes() const {
    int64_t bytes = 0;
    for (const int number : group().texts) {
      bytes += static_cast<int64_t>(request_.texts(number).size());
    }
    return bytes;
  }

  // Starts the next pass or the next language, or answers the call.
  void EndPass(const DecodedSentences& decoded) {
    // 1. Counts, and the end of the call if a sentence failed.
    absl::Status status = Outcome(decoded);
    const bool is_translated = pass_ < group().models.size();
    if (is_translated) {
      CountPass(decoded);
    }
    if (!status.ok()) {
      Answer(status);
      return;
    }
    if (is_translated) {
      JoinTexts(decoded.sentences);
    }
    // 2. The next model of the route translates the joined units.
    if (!IsLastPass()) {
      ++pass_;
      StartPass();
      return;
    }
    // 3. The group is done: its texts are written, and a stream sends them if all texts before them
    //    are done.
    parts_.Count(GroupBytes());
    WriteGroup();
    num_texts_done_ = std::max(num_texts_done_, group().texts.back() + 1);
    const bool ends_part = group().ends_part;
    if (++group_ == plan_.groups.size()) {
      Answer(status);
      return;
    }
    if (ends_part) {
      parts_.SendTexts(num_texts_done_, response_);
    }
    StartGroup();
  }

  absl::Status Outcome(const DecodedSentences& decoded) const {
    if (decoded.failure.ok()) {
      return absl::OkStatus();
    }
    if (caller_.cancelled != nullptr && caller_.cancelled->cancelled()) {
      return caller_.cancelled->Outcome(caller_.deadline, SteadyNow());
    }
    const size_t unit = decoded.sentences[decoded.failed].unit;
    std::string field =
        is_office_ ? "document" : absl::StrCat("texts[", places_[unit].text_number, "]");
    return status::WithFields(decoded.failure, [&](absl::string_view) { return field; });
  }

  // The units as the model of this pass translates them.
  void JoinTexts(absl::Span<const Sentence> all) {
    std::vector<MarkedText> joined;
    size_t first = 0;  // sentence of the unit
    for (size_t i = 0; i < units_.size(); ++i) {
      size_t behind = first;
      while (behind < all.size() && all[behind].unit == i) {
        ++behind;
      }
      const auto sentences = all.subspan(first, behind - first);
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
    return JoinUnit(units_[number], places_[number].pieces, found,
                    SeparatesWords(model_->config().translation().target_language()));
  }

  void CountPass(const DecodedSentences& decoded) {
    queue_ms_ += decoded.queue_ms;
    compute_ms_ += decoded.compute_ms;
    num_failed_ += decoded.num_failed;
    most_in_flight_ = decoded.most_in_flight;
    core_.metrics().CountSources(*model_, decoded.counted);
    core_.quarantine().Count(*model_, decoded.counted.results_size() - decoded.num_failed,
                             decoded.num_model_faults, SteadyNow());
  }

  void Answer(absl::Status status) {
    if (status.ok() && is_office_) {
      status = WriteOffice();
    }
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
    parts_.Finish(response_);
    done_(std::move(response_));
  }

  // The translations of the language's texts.
  void WriteGroup() {
    size_t unit = 0;
    for (const int number : group().texts) {
      v1::Translation& translation = *response_.mutable_translations(number);
      if (const DetectedLanguage& source = plan_.sources[static_cast<size_t>(number)];
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
  PartSender parts_;
  const TranslateDone done_;
  serving::MemoryAccount::Hold hold_;
  serving::MemoryAccount::Hold file_hold_;  // of an office file and its parts
  serving::MemoryAccount::Hold sentences_hold_ = core_.memory().MakeHold();  // of the pass
  bool is_office_ = false;
  std::vector<std::string> part_names_;  // of an office file, one for each text
  CallPlan plan_;
  uint64_t call_ = 0;
  size_t num_alternatives_ = 0;
  v1::TranslateRequest request_;
  v1::TranslateResponse response_;
  int num_texts_done_ = 0;           // all before this number, once a part has ended
  std::vector<Document> documents_;  // of each text
  // Of the current group.
  size_t group_ = 0;
  std::vector<MarkedText> units_;                 // as the models so far translated them
  std::vector<std::vector<MarkedText>> further_;  // of each unit, by rank
  // Of the current pass.
  size_t pass_ = 0;
  ModelPtr model_;
  std::shared_ptr<const engine::ResolvedOptions> options_;
  std::shared_ptr<const engine::ResolvedOptions> marked_options_;  // with attention
  std::vector<UnitPlace> places_;                                  // of each unit
  std::vector<Sentence> sentences_;  // of all units, in order; with the decoder while it works
  // Of all passes so far.
  int num_sentences_ = 0;
  int num_failed_ = 0;
  double queue_ms_ = 0;
  double compute_ms_ = 0;
  size_t most_in_flight_ = kMaxSentencesInFlight;
};

void Translator::Translate(absl::StatusOr<v1::TranslateRequest> request,
                           const serving::Caller& caller, TranslateDone done) {
  std::make_shared<Call>(*this, caller, nullptr, std::move(done))->Start(std::move(request));
}

void Translator::TranslateInParts(absl::StatusOr<v1::TranslateRequest> request,
                                  const serving::Caller& caller, TranslatePart part,
                                  TranslateDone done) {
  std::make_shared<Call>(*this, caller, std::move(part), std::move(done))
      ->Start(std::move(request));
}

std::vector<Language> Translator::Languages() const {
  return ListTranslationModels(core_).directions.Languages();
}

absl::StatusOr<std::vector<DetectedLanguage>> Translator::Detect(absl::string_view text) const {
  const Directions directions = ListTranslationModels(core_).directions;
  return DetectLanguages(text, /*is_html=*/false,
                         [&](absl::string_view tag) { return directions.Resolve(tag); });
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
