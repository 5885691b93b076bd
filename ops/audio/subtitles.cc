#include "ops/audio/subtitles.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace beamwright::audio {
namespace {

std::string Time(double ms, char mark) {
  const auto all = static_cast<int64_t>(std::llround(ms));
  return absl::StrFormat("%02d:%02d:%02d%c%03d", all / 3'600'000, all / 60'000 % 60,
                         all / 1000 % 60, mark, all % 1000);
}

}  // namespace

std::string Subtitle(SubtitleForm form, int number, double begin_ms, double end_ms,
                     absl::string_view text) {
  const bool is_vtt = form == SubtitleForm::kVtt;
  const char mark = is_vtt ? '.' : ',';
  std::string shown = absl::StrReplaceAll(text, {{"-->", "->"}, {"\n", " "}});
  if (is_vtt) {
    absl::StrReplaceAll({{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}, &shown);
  }
  return absl::StrCat(is_vtt ? "" : absl::StrCat(number, "\n"), Time(begin_ms, mark), " --> ",
                      Time(end_ms, mark), "\n", shown, "\n\n");
}

}  // namespace beamwright::audio
