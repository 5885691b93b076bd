// The language of the sound, of models whose answers begin with its token: Whisper's <|de|> is the
// first token of the target prefix in the default options, Canary's is amid its prompt.
#ifndef BEAMWRIGHT_SERVER_SERVING_SPOKEN_LANGUAGE_H_
#define BEAMWRIGHT_SERVER_SERVING_SPOKEN_LANGUAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
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

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SPOKEN_LANGUAGE_H_
