// A side's text: what its vocabulary file says of its form and special tokens, and which of them a
// model was trained with around its texts.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_TEXT_SIDE_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_TEXT_SIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "beamwright/v1/model.pb.h"
#include "engine/bundle/bundle.h"
#include "ops/base/vocabulary.h"

namespace beamwright::tools {

// What a vocabulary file says of one side's text: its form and special tokens, for model.textproto
// (docs/bundle.md, 'Text').

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

// Whether a vocabulary is a SentencePiece model by its name, .model or .spm: bytes, not lines.
bool IsSentencePiece(absl::string_view path);

// `side`: "source" or "target", for messages and the file's name in the bundle. `path`: a
// vocabulary with one token a line, a SentencePiece model, or a file that says how text
// is cut (engine/bundle/tokenizer_file.h); `content`: what it holds.
// Begin and end tokens are looked for on the target side only: whether a source is framed by them,
// its vocabulary can't say, and `special` does. InvalidArgument: a special token that is not in
// the vocabulary, or Vocabulary::Parse's.
absl::StatusOr<TextSide> ReadTextSide(const std::string& side, const std::string& path,
                                      const std::string& content, const SpecialTokens& special,
                                      std::vector<std::string>& reasons,
                                      Vocabulary::Lines lines = Vocabulary::Lines::kDistinct);

// Which special tokens a model was trained with around its texts. No graph and no vocabulary says
// so, and a wrong answer is served without a word. Known pairs of source and target show it: a
// model believes them under the framing that it was trained with.

struct KnownPair {
  int line = 0;  // of the file, from 1
  std::string source;
  std::string target;
};

// "source<TAB>target", one a line; the first kMostPairs of them. InvalidArgument names the line.
inline constexpr int kMostPairs = 50;
absl::StatusOr<std::vector<KnownPair>> ParsePairs(const std::string& content);

struct Framing {
  std::string source_begin;  // empty: none
  std::string source_end;    // empty: none
  std::string target_begin;
  int pad_to_length = 0;  // of sources; 0: they are not padded
  friend bool operator==(const Framing&, const Framing&) = default;
};

// What each may be.
struct FramingChoices {
  std::vector<std::string> source_begins;
  std::vector<std::string> source_ends;
  std::vector<std::string> target_begins;
  // More than one framing.
  bool open() const;
};

// Tokens with the usual names that the vocabularies hold, in addition to `config`; "" where there
// may be none. A source of ids or features is not framed.
FramingChoices UsualFramings(const bundle::Bundle& bundle);

struct FramingFound {
  Framing framing;
  // By which the best framing leads the next one, in nats a token, and the tokens that say so;
  // infinity if there is no other.
  double lead = 0;
  int64_t tokens = 0;
  // Less than a nat in all may be chance.
  bool is_sure() const { return lead * static_cast<double>(tokens) >= 1; }
  // For each framing what the model gives the pairs' targets, one line each, the best dozen, best
  // first.
  std::vector<std::string> evidence;
};

// Scores the pairs under every framing; where the source has a pad token and the encoder no mask,
// also with sources padded to the usual lengths. Finds the best, or the one
// that the bundle has if none leads it by more than a few hundredths of a nat a token. The
// vocabularies are the contents of their files. InvalidArgument: pairs that no framing can read,
// naming the line of the first.
absl::StatusOr<FramingFound> FindFraming(const bundle::Bundle& bundle,
                                         const std::string& source_vocabulary,
                                         const std::string& target_vocabulary,
                                         const FramingChoices& choices,
                                         const std::vector<KnownPair>& pairs);

// "source after nothing and before '</s>', target after '<s>'".
std::string ToString(const Framing& framing);

Framing FramingOf(const v1::ModelConfig& config);
// Writes the framing into the configuration.
void SetFraming(const Framing& framing, v1::ModelConfig& config);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_TEXT_SIDE_H_
