// Sentence decoder: hands the sentences of one pass to the engine and collects what it decodes. A
// call of many sentences does not fill the engine's queue: at most kMaxSentencesInFlight of them
// are in the engine at a time, and a sentence that the queue refuses is tried again, with fewer in
// flight, when another sentence of the pass is done. Private to translate/.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_SENTENCE_DECODER_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_SENTENCE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/translate.pb.h"
#include "engine/bundle/text_codec.h"
#include "server/serving/core.h"
#include "server/translate/marked_text.h"
#include "server/translate/sentences.h"

namespace beamwright::translate {

// Which word of a translation comes from which place of its source, by the attention that a search
// reports for tokens.

// The words of hypothesis.text(), in bytes of it and of the source. Where no word has a place in
// the alignment, words come from the same share of the source as theirs of the translation.
// separate: white space separates words; else each token is a word.
std::vector<Word> AlignWords(const bundle::TextCodec& source_codec, absl::string_view source,
                             const bundle::TextCodec& target_codec,
                             const v1::Hypothesis& hypothesis, bool separate);

// What becomes of a unit when its sentences are translated, and which terms of a glossary it has.

// A translation of a sentence; of a unit with markup with the places of its words.
struct FoundSentence {
  std::string text;
  std::vector<Word> words;
};

// The unit with its pieces translated and its markup carried over. sentences: one for each piece
// that is a sentence; null: nothing was found. separate: as JoinPieces. pieces: views into the text
// of the unit.
MarkedText JoinUnit(const MarkedText& unit, absl::Span<const Piece> pieces,
                    absl::Span<const FoundSentence* const> sentences, bool separate);

// Whether a sentence has a term, which is not empty, as whole words.
bool HasTerm(absl::string_view sentence, absl::string_view term);

// Part sender: what a stream of Translate sends before its last message.

// For one call, on one thread at a time.
class PartSender {
 public:
  using Send = std::function<void(v1::TranslateResponse)>;

  // send: null, the call is no stream and nothing is sent.
  explicit PartSender(Send send) : send_(std::move(send)) {}

  bool is_stream() const { return send_ != nullptr; }

  // num_bytes: of all texts of the call.
  void Begin(int64_t num_bytes) { num_bytes_ = num_bytes; }

  // Of the texts that are worked on, num_bytes, this share is done. Sends it if it is a hundredth
  // of the call more than the last message said.
  void Report(int64_t num_bytes, double share, const v1::TranslateResponse& response);

  // Texts of num_bytes more are done.
  void Count(int64_t num_bytes) { num_done_ += num_bytes; }

  // Sends the translations before `end` of those that `response` has for each text, without those
  // that were sent before.
  void SendTexts(int end, v1::TranslateResponse& response);

  // The response becomes the stream's last message.
  void Finish(v1::TranslateResponse& response) const;

 private:
  void SendPart(v1::TranslateResponse part, const v1::TranslateResponse& response);

  const Send send_;
  int64_t num_bytes_ = 0;
  int64_t num_done_ = 0;
  double reported_ = 0;
  int num_sent_ = 0;  // texts
};

inline constexpr size_t kMaxSentencesInFlight = 64;

// A sentence and what was found for it.
struct Sentence {
  absl::string_view text;  // of the unit's text, which must outlive the pass
  size_t unit = 0;         // number
  std::shared_ptr<const engine::ResolvedOptions> options;
  // Instead of `options`, which require a glossary's terms, if no translation within the longest
  // length has all of them. Null: `options` require none.
  std::shared_ptr<const engine::ResolvedOptions> without_glossary;
  bool finds_words = false;          // the places of words are wanted, for markup
  std::vector<FoundSentence> found;  // best first
};

struct DecodedSentences {
  std::vector<Sentence> sentences;  // as they were given, with what was found
  // The error of the first sentence that failed, whichever ended first, and its number.
  absl::Status failure;
  size_t failed = 0;
  v1::DecodeResponse counted;  // for metrics: the best hypothesis or the error of each sentence
  int num_failed = 0;
  int num_model_faults = 0;  // of the failed ones, by fault of the model
  double queue_ms = 0;
  double compute_ms = 0;
  size_t most_in_flight = 0;  // that the queue admitted in the end, for the next pass
};

class SentenceDecoder : public std::enable_shared_from_this<SentenceDecoder> {
 public:
  using Done = std::function<void(DecodedSentences)>;
  // How many sentences are done; not called at the same time as itself or Done.
  using Progress = std::function<void(size_t)>;

  // Decodes the sentences by `model`, and reports progress now and then; `done` is called once, on
  // any thread or within Start. After a failure no further sentence is handed to the engine. The
  // core must outlive the pass.
  static void Start(serving::Core& core, serving::ModelPtr model, const engine::CallOptions& call,
                    std::vector<Sentence> sentences, size_t most_in_flight, Done done,
                    Progress progress);

  SentenceDecoder(serving::Core& core, serving::ModelPtr model, const engine::CallOptions& call,
                  std::vector<Sentence> sentences, size_t most_in_flight, Done done,
                  Progress progress);

 private:
  void Pump();
  // num_back: how many sentences were back when this one was chosen.
  void Submit(size_t number, size_t num_back);
  void Take(size_t number, size_t num_back, absl::StatusOr<v1::Decoded> decoded);
  void End();
  bool HasWaiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return result_.failure.ok() && (!again_.empty() || next_ < sentences_.size());
  }
  std::vector<FoundSentence> FoundOf(const Sentence& sentence,
                                     const absl::StatusOr<v1::Decoded>& decoded) const;
  void Count(v1::Decoded decoded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(size_t number, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  serving::Core& core_;
  const serving::ModelPtr model_;
  const engine::CallOptions call_;
  const Done done_;
  const Progress progress_;  // may be null
  // A sentence belongs to the thread that submits it, then to the one that takes its answer.
  std::vector<Sentence> sentences_;
  // The first sentence that has not been handed to the engine. Written by the thread that pumps.
  size_t next_ = 0;

  absl::Mutex mutex_;
  bool is_pumping_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<size_t> again_ ABSL_GUARDED_BY(mutex_);  // sentences that the queue refused
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // Sentences that came back and are not tried again for want of room: each such trial needs a new
  // one, so that trials end.
  size_t num_back_ ABSL_GUARDED_BY(mutex_) = 0;
  DecodedSentences result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_SENTENCE_DECODER_H_
