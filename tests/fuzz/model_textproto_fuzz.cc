// model.textproto and the vocabularies that it speaks of, with a zero byte between them: whatever
// they hold, codecs, or an error with line and field. What codecs write of ids they can be asked to
// read.
#include <string>

#include "absl/strings/str_split.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/text_codec.h"

namespace beamwright::bundle {
namespace {

// SentencePiece's library is not ours, and sanitizer builds can't load it.
void Use(const v1::TextConfig& config, const std::string& vocabulary) {
  if (config.form() == v1::TEXT_FORM_SENTENCEPIECE) {
    return;
  }
  const auto codec = TextCodec::Create(config, vocabulary);
  if (!codec.ok()) {
    return;
  }
  const std::string text = (*codec)->Decode({0, 1, 2, -1, (*codec)->size()});
  (*codec)->Encode(text).status().IgnoreError();
  (*codec)->Encode(vocabulary).status().IgnoreError();
}

}  // namespace
}  // namespace beamwright::bundle

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> parts = absl::StrSplit(input, absl::MaxSplits('\0', 1));
  const auto config = beamwright::bundle::ParseModelConfig(parts[0]);
  if (config.ok()) {
    const std::string vocabulary = parts.size() > 1 ? parts[1] : "";
    beamwright::bundle::Use(config->source(), vocabulary);
    beamwright::bundle::Use(config->target(), vocabulary);
  }
  return 0;
}
