#include "server/translate/detect.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "ops/base/utf8.h"

namespace beamwright::translate {
namespace {

constexpr size_t kMostBytes = size_t{64} << 10;
// CLD2's kCLDFlagBestEffort: an answer for short texts, too.
constexpr int kBestEffort = 0x4000;

// The functions of libcld2, which has not changed since 2015; Language is an enum. Hints and chunks
// are null here.
struct Library {
  // CLD2::ExtDetectLanguageSummaryCheckUTF8
  int (*detect)(const char* bytes, int size, bool is_plain_text, const void* hints, int flags,
                int* language3, int* percent3, double* score3, void* chunks, int* text_bytes,
                bool* is_reliable, int* valid_bytes) = nullptr;
  // CLD2::LanguageCode
  const char* (*code)(int language) = nullptr;

  static const Library* Get() {
    static const Library* const library = Load();
    return library;
  }

 private:
  // Null if it is not installed, or of another kind than is known.
  static const Library* Load() {
    void* const handle = dlopen("libcld2.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return nullptr;
    }
    static Library library;
    library.detect = reinterpret_cast<decltype(library.detect)>(
        dlsym(handle,
              "_ZN4CLD233ExtDetectLanguageSummaryCheckUTF8EPKcibPKNS_8CLDHintsEiPNS_8LanguageEPiPd"
              "PSt6vectorINS_11ResultChunkESaISA_EES7_PbS7_"));
    library.code = reinterpret_cast<decltype(library.code)>(
        dlsym(handle, "_ZN4CLD212LanguageCodeENS_8LanguageE"));
    return library.detect == nullptr || library.code == nullptr ? nullptr : &library;
  }
};

// CLD2's codes that are not BCP 47's of today.
std::string TagOf(absl::string_view code) {
  constexpr std::pair<const char*, const char*> kOldCodes[] = {
      {"iw", "he"}, {"jw", "jv"}, {"no", "nb"}, {"tl", "fil"}, {"mo", "ro"}};
  for (const auto& [old, tag] : kOldCodes) {
    if (code == old) {
      return tag;
    }
  }
  return std::string(code);
}

}  // namespace

absl::StatusOr<std::vector<DetectedLanguage>> DetectLanguages(
    absl::string_view text, bool is_html,
    const std::function<std::string(absl::string_view tag)>& resolve) {
  const Library* const library = Library::Get();
  if (library == nullptr) {
    return absl::UnimplementedError(
        "finding out a language needs the library libcld2.so.0, which is not installed (Debian: "
        "apt-get install libcld2-0)");
  }
  text = text.substr(0, kMostBytes);
  while (!text.empty() &&
         !CheckUtf8(text.substr(text.size() - std::min<size_t>(4, text.size()))).ok() &&
         !CheckUtf8(text).ok()) {
    text.remove_suffix(1);  // of a character that was cut
  }
  int languages[3] = {0, 0, 0};
  int percents[3] = {0, 0, 0};
  double scores[3] = {0, 0, 0};
  int text_bytes = 0;
  int valid_bytes = 0;
  bool is_reliable = false;
  library->detect(text.data(), static_cast<int>(text.size()), !is_html, nullptr, kBestEffort,
                  languages, percents, scores, nullptr, &text_bytes, &is_reliable, &valid_bytes);
  std::vector<DetectedLanguage> detected;
  for (int i = 0; i < 3; ++i) {
    const std::string tag = TagOf(library->code(languages[i]));
    std::string language = percents[i] > 0 ? resolve(tag) : "";
    if (language.empty() && tag == "nb" && percents[i] > 0) {
      language = resolve("no");
    }
    if (!language.empty()) {
      detected.push_back({std::move(language), percents[i] * (is_reliable ? 1.0 : 0.5)});
    }
  }
  return detected;
}

}  // namespace beamwright::translate
