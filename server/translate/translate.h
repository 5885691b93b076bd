// Translate: a call that translates texts, from its request to its response, the same for every
// protocol. The counterpart of serving/decode.h: the engine decodes sentences; Translator cuts
// texts into sentences and joins their translations.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_TRANSLATE_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_TRANSLATE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "beamwright/v1/translate.pb.h"
#include "server/serving/caller.h"
#include "server/serving/core.h"
#include "server/translate/directions.h"
#include "server/translate/sentences.h"

namespace beamwright::translate {

// Most tokens of a sentence; longer ones are cut. Translation models are trained on sentences, and
// get worse beyond.
inline constexpr int kMaxSentenceTokens = 128;

using TranslateDone = std::function<void(absl::StatusOr<v1::TranslateResponse>)>;
using TranslatePart = std::function<void(v1::TranslateResponse)>;

// Thread-safe. The core must outlive it.
class Translator {
 public:
  explicit Translator(serving::Core& core) : core_(core) {}

  // Translates every text; `done` is called once, on any thread. The call fails as a whole with the
  // error of the first sentence that fails, in the terms of the request: InvalidArgument naming
  // fields of TranslateRequest, and as serving::Decode for what the engine refuses. A request that
  // is an error is refused with it. A call of many sentences does not fill the engine's queue
  // (sentence_decoder.h).
  void Translate(absl::StatusOr<v1::TranslateRequest> request, const serving::Caller& caller,
                 TranslateDone done);

  // The same as a stream: before `done` gets the last message or the error, `part` gets the others,
  // on any thread, one after the other.
  void TranslateInParts(absl::StatusOr<v1::TranslateRequest> request, const serving::Caller& caller,
                        TranslatePart part, TranslateDone done);

  // The languages that are translated now, by code.
  std::vector<Language> Languages() const;

  // The languages of a text among those that are served, as DetectLanguages.
  absl::StatusOr<std::vector<DetectedLanguage>> Detect(absl::string_view text) const;

 private:
  class Call;

  absl::StatusOr<std::shared_ptr<const SentenceSplitter>> SplitterFor(const std::string& language);

  serving::Core& core_;
  absl::Mutex mutex_;
  // By language; made when a language is asked for first.
  absl::flat_hash_map<std::string, std::shared_ptr<const SentenceSplitter>> splitters_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_TRANSLATE_H_
