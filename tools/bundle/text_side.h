// What a vocabulary file says of one side's text: its form and special tokens, for model.textproto
// (docs/bundle.md, 'Text').
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TEXT_SIDE_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TEXT_SIDE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "beamwright/v1/model.pb.h"
#include "ops/base/vocabulary.h"

namespace beamwright::tools {

struct TextSide {
  v1::TextConfig config;  // `vocabulary` is the file's name in the bundle
  int64_t size = -1;      // number of ids; -1: not known
};

// What the command line says of special tokens. Of the target's, empty: look for the usual ones.
struct SpecialTokens {
  std::string begin;
  std::vector<std::string> ends;
  // Of the source's: not given, or empty for none.
  std::optional<std::string> source_begin;
  std::optional<std::string> source_end;
};

// `side`: "source" or "target", for messages and the file's name in the bundle. `path`: a
// vocabulary with one token a line, a SentencePiece model (".model"), or a file that says how text
// is cut (engine/bundle/tokenizer_file.h); `content`: what it holds.
// Begin and end tokens are looked for on the target side only: whether a source is framed by them,
// its vocabulary can't say, and `special` does. InvalidArgument: a special token that is not in
// the vocabulary, or Vocabulary::Parse's.
absl::StatusOr<TextSide> ReadTextSide(const std::string& side, const std::string& path,
                                      const std::string& content, const SpecialTokens& special,
                                      std::vector<std::string>& reasons,
                                      Vocabulary::Lines lines = Vocabulary::Lines::kDistinct);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TEXT_SIDE_H_
