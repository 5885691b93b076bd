// Finds the words of a translation and where each comes from in the source (AlignWords), so that
// tags of the source can be put around the right words.
//
// 1. TokenRanges finds the bytes of each token in its text. Tokens are searched in order, near the
//    end of the one before; one that was changed by normalization is left out.
// 2. Tokens become words at spaces and around marks.
// 3. The source of a word is the source token that the model attended to for its first token that
//    has one. Without any alignment it is the place at the same part of the text.
#include "server/translate/alignment.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"

namespace beamwright::translate {
namespace {

// The bytes of a token in a text; empty where they are not known.
struct TokenRange {
  size_t begin = 0;
  size_t end = 0;
};

// Tokens are searched in their order. One that the text does not have as the vocabulary writes it,
// as after normalisation, is left out; the next one is found some bytes later.
std::vector<TokenRange> TokenRanges(const bundle::TextCodec& codec, absl::Span<const int32_t> ids,
                                    absl::string_view text) {
  constexpr size_t kNear = 16;     // bytes
  constexpr size_t kMissing = 24;  // more of them for each token that was not found
  std::vector<TokenRange> ranges;
  size_t at = 0;
  size_t window = kNear;
  for (const int32_t id : ids) {
    const std::string decoded = codec.Decode({&id, 1});
    const absl::string_view token = absl::StripAsciiWhitespace(decoded);
    const size_t found = token.empty() ? absl::string_view::npos
                                       : text.substr(at, window + token.size()).find(token);
    if (found == absl::string_view::npos) {
      ranges.push_back({at, at});
      window += token.empty() ? 0 : kMissing;
      continue;
    }
    ranges.push_back({at + found, at + found + token.size()});
    at = ranges.back().end;
    window = kNear;
  }
  return ranges;
}

// Marks that end clauses are separate words: <b>word</b>, not <b>word,</b>.
bool IsMark(absl::string_view token) {
  constexpr absl::string_view kMarks = ".,;:!?)]\"";
  return kMarks.find(token[0]) != absl::string_view::npos;
}

}  // namespace

std::vector<Word> AlignWords(const bundle::TextCodec& source_codec, absl::string_view source,
                             const bundle::TextCodec& target_codec,
                             const v1::Hypothesis& hypothesis, bool separate) {
  const absl::string_view text = hypothesis.text();
  const std::vector<TokenRange> targets = TokenRanges(target_codec, hypothesis.tokens(), text);
  std::vector<TokenRange> sources;
  if (const auto encoded = source_codec.Encode(source); encoded.ok()) {
    sources = TokenRanges(source_codec, encoded->ids, source);
  }
  std::vector<Word> words;
  bool after_mark = false;
  for (size_t i = 0; i < targets.size(); ++i) {
    const TokenRange& token = targets[i];
    if (token.begin == token.end) {
      continue;
    }
    const bool is_mark = IsMark(text.substr(token.begin));
    const bool begins_word = words.empty() || !separate || is_mark || after_mark ||
                             IsSpace(text[token.begin - (token.begin > 0 ? 1 : 0)]);
    if (begins_word) {
      words.push_back({words.empty() ? 0 : token.begin, token.end, Word::kUnknown});
    }
    after_mark = is_mark;
    const size_t position = i < static_cast<size_t>(hypothesis.alignment_size())
                                ? static_cast<size_t>(hypothesis.alignment(static_cast<int>(i)))
                                : sources.size();
    if (words.back().source == Word::kUnknown && position < sources.size() &&
        sources[position].begin < sources[position].end) {
      words.back().source = sources[position].begin;
    }
  }
  if (words.empty() && !text.empty()) {
    words.push_back({0, text.size(), 0});
  }
  const bool is_aligned = std::any_of(
      words.begin(), words.end(), [](const Word& word) { return word.source != Word::kUnknown; });
  for (size_t i = 0; i < words.size(); ++i) {
    // Bytes between tokens belong to the word before them.
    size_t end = i + 1 < words.size() ? words[i + 1].begin : text.size();
    while (end > words[i].begin + 1 && IsSpace(text[end - 1])) {
      --end;
    }
    words[i].end = end;
    if (!is_aligned) {
      words[i].source = words[i].begin * source.size() / text.size();
    }
  }
  return words;
}

}  // namespace beamwright::translate
