// What answers of speech models say with special tokens: the language of the sound, and times.
// Whisper's <|de|> is the first token of the target prefix in the default options, Canary's is amid
// its prompt.
#ifndef BEAMWRIGHT_SERVER_SERVING_SPOKEN_LANGUAGE_H_
#define BEAMWRIGHT_SERVER_SERVING_SPOKEN_LANGUAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"
#include "include/beamwright/engine.h"

namespace beamwright::serving {

// In a request: the model hears the language.
inline constexpr char kAnyLanguage[] = "auto";

// The code of the first language in the prefix of answers: of the options' prefix, or the model's.
// Empty: it names no language.
std::string LanguageOf(const engine::DecodeModel& model, const v1::DecodeOptions& options);
// Answers, whose prefix names a language, name the one of this code; so does the language of the
// text if it was that of the sound. InvalidArgument naming the field `language`.
absl::Status SetLanguage(const engine::DecodeModel& model, absl::string_view code,
                         v1::DecodeOptions& options);

// Whether answers begin with the language, so that the model can choose it.
bool HearsLanguage(const engine::DecodeModel& model, const v1::DecodeOptions& options);
// Of a search whose only answer is the token of the language, made once for the model, and the code
// of such an answer; empty if it has none.
absl::StatusOr<std::shared_ptr<const engine::ResolvedOptions>> LanguageSearch(
    const engine::DecodeModel& model);
std::string LanguageOf(const engine::DecodeModel& model, const v1::Decoded& answer);

// Times that Whisper writes between its texts, <|0.00|> and so on, 20 ms apart from the begin of
// the sound: it does unless the answer's prefix has <|notimestamps|>.

// Answers have times, if the model can write them.
void AskForTimes(const engine::DecodeModel& model, v1::DecodeOptions& options);

struct TimedSegments {
  std::vector<v1::RecognizedSegment> segments;
  // Where the sound is to be heard again, from the begin of the window: an answer that ends in two
  // times, or behind them without a third, did not come to its end. 0: it did.
  double resume_ms = 0;
};

// A window whose best hypothesis has times, as the segments between them: their texts and tokens
// without the times. The window itself if it has none. Numbers follow on that of `whole`. first:
// the token of the time 0 (search::ProcessorOptions::first_timestamp).
TimedSegments SplitAtTimes(const engine::DecodeModel& model, int32_t first,
                           v1::RecognizedSegment whole);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SPOKEN_LANGUAGE_H_
