// Decodes the sentences of a translation call, with a bounded number in flight, and calls `done`
// when all are back.
//
// 1. Pump hands sentences to the engine while there is room. One thread at a time does this: the
//    one that has set is_pumping_.
// 2. Take gets an answer, on the engine's thread. A sentence that was refused because the queue is
//    full tries again while other sentences of this call are in flight, and the room shrinks to
//    what was accepted; each answer lets it grow by one. A sentence that cannot be written with its
//    glossary is decoded again without it.
// 3. When half of the room is free, another Pump is posted to the reply threads: fewer wake-ups
//    than one per place.
#include "server/translate/sentence_decoder.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"

namespace beamwright::translate {

// Finds the words of a translation and where each comes from in the source (AlignWords), so that
// tags of the source can be put around the right words.
//
// 1. TokenRanges finds the bytes of each token in its text. Tokens are searched in order, near the
//    end of the one before; one that was changed by normalization is left out.
// 2. Tokens become words at spaces and around marks.
// 3. The source of a word is the source token that the model attended to for its first token that
//    has one. Without any alignment it is the place at the same part of the text.

namespace {

// The bytes of a token in a text; empty where they are not known.
struct TokenRange {
  size_t begin = 0;
  size_t end = 0;
};

// Tokens are searched in their order. One that the text does not have as the vocabulary writes it,
// as after normalisation, is left out; the next one is found some bytes later.
std::vector<TokenRange> TokenRanges(const bundle::TextCodec& codec, absl::Span<const int32_t> ids,
                                    absl::string_view text) {
  constexpr size_t kNear = 16;     // bytes
  constexpr size_t kMissing = 24;  // more of them for each token that was not found
  std::vector<TokenRange> ranges;
  size_t at = 0;
  size_t window = kNear;
  for (const int32_t id : ids) {
    const std::string decoded = codec.Decode({&id, 1});
    const absl::string_view token = absl::StripAsciiWhitespace(decoded);
    const size_t found = token.empty() ? absl::string_view::npos
                                       : text.substr(at, window + token.size()).find(token);
    if (found == absl::string_view::npos) {
      ranges.push_back({at, at});
      window += token.empty() ? 0 : kMissing;
      continue;
    }
    ranges.push_back({at + found, at + found + token.size()});
    at = ranges.back().end;
    window = kNear;
  }
  return ranges;
}

// Marks that end clauses are separate words: <b>word</b>, not <b>word,</b>.
bool IsMark(absl::string_view token) {
  constexpr absl::string_view kMarks = ".,;:!?)]\"";
  return kMarks.find(token[0]) != absl::string_view::npos;
}

}  // namespace

std::vector<Word> AlignWords(const bundle::TextCodec& source_codec, absl::string_view source,
                             const bundle::TextCodec& target_codec,
                             const v1::Hypothesis& hypothesis, bool separate) {
  const absl::string_view text = hypothesis.text();
  const std::vector<TokenRange> targets = TokenRanges(target_codec, hypothesis.tokens(), text);
  std::vector<TokenRange> sources;
  if (const auto encoded = source_codec.Encode(source); encoded.ok()) {
    sources = TokenRanges(source_codec, encoded->ids, source);
  }
  std::vector<Word> words;
  bool after_mark = false;
  for (size_t i = 0; i < targets.size(); ++i) {
    const TokenRange& token = targets[i];
    if (token.begin == token.end) {
      continue;
    }
    const bool is_mark = IsMark(text.substr(token.begin));
    const bool begins_word = words.empty() || !separate || is_mark || after_mark ||
                             IsSpace(text[token.begin - (token.begin > 0 ? 1 : 0)]);
    if (begins_word) {
      words.push_back({words.empty() ? 0 : token.begin, token.end, Word::kUnknown});
    }
    after_mark = is_mark;
    const size_t position = i < static_cast<size_t>(hypothesis.alignment_size())
                                ? static_cast<size_t>(hypothesis.alignment(static_cast<int>(i)))
                                : sources.size();
    if (words.back().source == Word::kUnknown && position < sources.size() &&
        sources[position].begin < sources[position].end) {
      words.back().source = sources[position].begin;
    }
  }
  if (words.empty() && !text.empty()) {
    words.push_back({0, text.size(), 0});
  }
  const bool is_aligned = std::any_of(
      words.begin(), words.end(), [](const Word& word) { return word.source != Word::kUnknown; });
  for (size_t i = 0; i < words.size(); ++i) {
    // Bytes between tokens belong to the word before them.
    size_t end = i + 1 < words.size() ? words[i + 1].begin : text.size();
    while (end > words[i].begin + 1 && IsSpace(text[end - 1])) {
      --end;
    }
    words[i].end = end;
    if (!is_aligned) {
      words[i].source = words[i].begin * source.size() / text.size();
    }
  }
  return words;
}

namespace {

// Words between white space, which are the same in both languages.
void AddKeptWords(absl::string_view text, size_t begin, size_t source, std::vector<Word>& words) {
  for (size_t at = 0; at < text.size();) {
    const size_t first = text.find_first_not_of(" \t\r\n", at);
    if (first == absl::string_view::npos) {
      return;
    }
    const size_t last = std::min(text.size(), text.find_first_of(" \t\r\n", first));
    words.push_back({begin + first, begin + last, source + first});
    at = last;
  }
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

MarkedText JoinUnit(const MarkedText& unit, absl::Span<const Piece> pieces,
                    absl::Span<const FoundSentence* const> sentences, bool separate) {
  std::vector<std::string> translations;
  for (const FoundSentence* sentence : sentences) {
    translations.push_back(sentence == nullptr ? "" : sentence->text);
  }
  std::vector<size_t> begins;
  std::string text = JoinPieces(pieces, translations, separate, &begins);
  if (unit.elements.empty()) {
    return {std::move(text), {}};
  }
  std::vector<Word> words;
  size_t next = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto source = static_cast<size_t>(pieces[i].text.data() - unit.text.data());
    if (!pieces[i].is_sentence) {
      AddKeptWords(pieces[i].text, begins[i], source, words);
      continue;
    }
    const FoundSentence* const sentence = sentences[next++];
    for (Word word : sentence == nullptr ? std::vector<Word>() : sentence->words) {
      word.begin += begins[i];
      word.end += begins[i];
      word.source += word.source == Word::kUnknown ? 0 : source;
      words.push_back(word);
    }
  }
  return CarryOver(unit, std::move(text), words);
}

bool HasTerm(absl::string_view sentence, absl::string_view term) {
  for (size_t at = sentence.find(term); at != absl::string_view::npos;
       at = sentence.find(term, at + 1)) {
    const size_t end = at + term.size();
    if ((at == 0 || !IsWordCharacter(sentence[at - 1])) &&
        (end == sentence.size() || !IsWordCharacter(sentence[end]))) {
      return true;
    }
  }
  return false;
}

namespace {

constexpr double kLeastProgress = 0.01;

double Share(double part, int64_t whole) {
  return whole > 0 ? std::min(1.0, part / static_cast<double>(whole)) : 1;
}

}  // namespace

void PartSender::Report(int64_t num_bytes, double share, const v1::TranslateResponse& response) {
  const double done = static_cast<double>(num_done_) + static_cast<double>(num_bytes) * share;
  if (is_stream() && Share(done, num_bytes_) >= reported_ + kLeastProgress) {
    v1::TranslateResponse part;
    part.set_done(Share(done, num_bytes_));
    SendPart(std::move(part), response);
  }
}

void PartSender::SendTexts(int end, v1::TranslateResponse& response) {
  if (!is_stream()) {
    return;
  }
  v1::TranslateResponse part;
  for (; num_sent_ < end; ++num_sent_) {
    part.add_translations()->Swap(response.mutable_translations(num_sent_));
  }
  part.set_done(Share(static_cast<double>(num_done_), num_bytes_));
  SendPart(std::move(part), response);
}

void PartSender::Finish(v1::TranslateResponse& response) const {
  if (is_stream()) {
    response.mutable_translations()->DeleteSubrange(0, num_sent_);
    response.set_done(1);
  }
}

void PartSender::SendPart(v1::TranslateResponse part, const v1::TranslateResponse& response) {
  reported_ = part.done();
  part.set_source_language(response.source_language());
  part.set_confidence(response.confidence());
  part.set_target_language(response.target_language());
  send_(std::move(part));
}

namespace {

// Whether a sentence was refused because others are ahead: it may try again while sentences of this
// call run.
bool IsForLaterOf(const absl::Status& status) {
  const std::string reason = status::ReasonOf(status);
  return absl::IsResourceExhausted(status) &&
         (reason == status::reason::kQueueFull || reason == status::reason::kTenantQuota);
}

}  // namespace

void SentenceDecoder::Start(serving::Core& core, serving::ModelPtr model,
                            const engine::CallOptions& call, std::vector<Sentence> sentences,
                            size_t most_in_flight, Done done, Progress progress) {
  std::make_shared<SentenceDecoder>(core, std::move(model), call, std::move(sentences),
                                    most_in_flight, std::move(done), std::move(progress))
      ->Pump();
}

SentenceDecoder::SentenceDecoder(serving::Core& core, serving::ModelPtr model,
                                 const engine::CallOptions& call, std::vector<Sentence> sentences,
                                 size_t most_in_flight, Done done, Progress progress)
    : core_(core),
      model_(std::move(model)),
      call_(call),
      done_(std::move(done)),
      progress_(std::move(progress)),
      sentences_(std::move(sentences)) {
  result_.most_in_flight = most_in_flight;
}

// Hands sentences to the engine as long as there is room for some, and ends the pass when all are
// back. One thread at a time: the one that set is_pumping_.
void SentenceDecoder::Pump() {
  std::vector<size_t> batch;
  size_t num_back = 0;
  for (;;) {
    batch.clear();
    {
      absl::MutexLock lock(&mutex_);
      num_back = num_back_;
      while (in_flight_ < result_.most_in_flight && HasWaiting()) {
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
    if (progress_ != nullptr && num_back > 0) {
      progress_(num_back);
    }
    for (const size_t number : batch) {
      Submit(number, num_back);
    }
    if (batch.empty()) {
      End();
      return;
    }
  }
}

void SentenceDecoder::Submit(size_t number, size_t num_back) {
  v1::Source source;
  source.set_text(std::string(sentences_[number].text));
  core_.engine().DecodeResolved(
      model_, std::move(source), sentences_[number].options, call_,
      [self = shared_from_this(), number, num_back](absl::StatusOr<v1::Decoded> decoded) {
        self->Take(number, num_back, std::move(decoded));
      });
}

// On the engine's thread, or within Submit.
void SentenceDecoder::Take(size_t number, size_t num_back, absl::StatusOr<v1::Decoded> decoded) {
  bool resumes = false;
  Sentence& sentence = sentences_[number];
  std::vector<FoundSentence> found = FoundOf(sentence, decoded);
  {
    absl::MutexLock lock(&mutex_);
    --in_flight_;
    // Sentences of this call fill the queue, or did when this one was refused and are back by now.
    const bool is_own_queue = in_flight_ > 0 || num_back_ > num_back;
    const bool is_for_later = is_own_queue && IsForLaterOf(decoded.status());
    num_back_ += is_for_later ? 0 : 1;
    if (decoded.ok()) {
      sentence.found = std::move(found);
      Count(*std::move(decoded));
      result_.most_in_flight = std::min(kMaxSentencesInFlight, result_.most_in_flight + 1);
    } else if (is_for_later) {
      again_.push_back(number);
      result_.most_in_flight = std::max<size_t>(1, in_flight_);
    } else if (sentence.without_glossary != nullptr &&
               absl::IsFailedPrecondition(decoded.status())) {
      sentence.options = std::exchange(sentence.without_glossary, nullptr);
      again_.push_back(number);
    } else {
      Fail(number, decoded.status());
    }
    // Half of the room at once costs half as many wake-ups as each place by itself.
    const bool has_room = in_flight_ <= result_.most_in_flight / 2;
    if (!is_pumping_ && (in_flight_ == 0 || (has_room && HasWaiting()))) {
      is_pumping_ = resumes = true;
    }
  }
  if (resumes) {
    core_.replies().Post([self = shared_from_this()] { self->Pump(); });
  }
}

void SentenceDecoder::End() {
  DecodedSentences result;
  {
    absl::MutexLock lock(&mutex_);
    result = std::move(result_);
  }
  result.sentences = std::move(sentences_);
  done_(std::move(result));
}

std::vector<FoundSentence> SentenceDecoder::FoundOf(
    const Sentence& sentence, const absl::StatusOr<v1::Decoded>& decoded) const {
  std::vector<FoundSentence> found;
  for (int i = 0; decoded.ok() && i < decoded->hypotheses_size(); ++i) {
    const v1::Hypothesis& hypothesis = decoded->hypotheses(i);
    found.push_back({hypothesis.text(), {}});
    if (sentence.finds_words) {
      found.back().words =
          AlignWords(model_->source(), sentence.text, model_->target(), hypothesis,
                     SeparatesWords(model_->config().translation().target_language()));
    }
  }
  return found;
}

void SentenceDecoder::Count(v1::Decoded decoded) {
  // Metrics count the best hypothesis.
  if (decoded.hypotheses_size() > 1) {
    decoded.mutable_hypotheses()->DeleteSubrange(1, decoded.hypotheses_size() - 1);
  }
  result_.queue_ms += decoded.queue_ms();
  result_.compute_ms += decoded.compute_ms();
  *result_.counted.add_results()->mutable_decoded() = std::move(decoded);
}

void SentenceDecoder::Fail(size_t number, const absl::Status& why) {
  result_.num_model_faults += absl::IsInternal(why) ? 1 : 0;
  ++result_.num_failed;
  *result_.counted.add_results()->mutable_error() = status::ToRpcStatus(why, status::Room::kBody);
  if (result_.failure.ok() || number < result_.failed) {
    result_.failed = number;
    result_.failure = why;
  }
}

}  // namespace beamwright::translate
