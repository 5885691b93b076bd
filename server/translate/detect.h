// Which language a text is in, by CLD2 (Compact Language Detector 2), which is loaded when a caller
// first asks: Debian's libcld2-0.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_DETECT_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_DETECT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace beamwright::translate {

// As a request's source language: to be found out.
inline constexpr char kAuto[] = "auto";

struct DetectedLanguage {
  std::string language;  // as `resolve` writes it
  double confidence =
      0;  // the share of the text in it, in percent; half of it where CLD2 is unsure
};

// The languages of a text, the likeliest first, at most 3; empty: not known, as of digits. Reads
// the first 64 KiB. text: UTF-8. is_html: tags are no text. resolve: the name of a language that
// counts, by its BCP 47 tag; empty: it does not count. Unimplemented if the library is not there.
absl::StatusOr<std::vector<DetectedLanguage>> DetectLanguages(
    absl::string_view text, bool is_html,
    const std::function<std::string(absl::string_view tag)>& resolve);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_DETECT_H_
