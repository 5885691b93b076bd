// Names that vocabularies give their special tokens.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_USUAL_TOKENS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_USUAL_TOKENS_H_

#include "absl/strings/string_view.h"

namespace beamwright::tools {

inline constexpr absl::string_view kUsualBegins[] = {"<s>",   "<bos>", "<sos>", "<start>", "<go>",
                                                     "[BOS]", "[SOS]", "BOS",   "SOS"};
inline constexpr absl::string_view kUsualEnds[] = {"</s>", "<eos>", "<end>", "[EOS]", "EOS"};
// Of language models.
inline constexpr absl::string_view kUsualBeginsOfTexts[] = {"<|begin_of_text|>", "<s>", "<bos>"};
inline constexpr absl::string_view kUsualEndsOfTexts[] = {"<|endoftext|>", "<|end_of_text|>",
                                                          "</s>", "<eos>"};
inline constexpr absl::string_view kUsualPads[] = {"<pad>", "<PAD>", "[PAD]", "<blank>"};
inline constexpr absl::string_view kUsualUnknowns[] = {"<unk>", "<UNK>", "[UNK]", "<unknown>"};

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_USUAL_TOKENS_H_
