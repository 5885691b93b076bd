// Tokens as OpenNMT's Tokenizer writes them: a space stands between two unless '￭' ends the first
// or begins the second. So what a token writes depends on the one before.
//
// Encode cuts the text word by word into the fewest tokens, by dynamic programming over (bytes
// read, whether the last token joins what follows): Extend tries every token that continues a
// state, CutWord follows the best ways back from the word's end. Costs in order of weight: a
// character that no token writes, a token, a joiner where nothing is to be joined. The last decides
// between cuts of equally many tokens, as the tokenizer itself writes no idle joiner.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/text_codec.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

constexpr absl::string_view kJoiner = "\xEF\xBF\xAD";

// A token without its joiners.
struct JoinedPiece {
  std::string text;
  bool joins_before = false;
  bool joins_behind = false;
};

JoinedPiece PieceOf(absl::string_view token) {
  JoinedPiece piece;
  piece.joins_before = absl::ConsumePrefix(&token, kJoiner);
  piece.joins_behind =
      absl::ConsumeSuffix(&token, kJoiner) || (piece.joins_before && token.empty());
  piece.text = std::string(token);
  return piece;
}

class JoinerCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           Vocabulary vocabulary) {
    auto codec = absl::WrapUnique(new JoinerCodec);
    codec->vocabulary_ = std::move(vocabulary);
    codec->lowercase_ = config.lowercase();
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->TokenId(token); }));
    BW_RETURN_IF_ERROR(codec->FindPieces(config));
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::string lowered = lowercase_ ? LowercaseLatin(text) : std::string(text);
    const std::vector<absl::string_view> words =
        absl::StrSplit(lowered, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty());
    if (words.empty()) {
      return status::InvalidField("text", "holds nothing but white space");
    }
    EncodedText encoded = Begin();
    size_t position = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      BW_RETURN_IF_ERROR(CutWord(words[i], {.is_first = i == 0, .is_last = i + 1 == words.size()},
                                 position, encoded));
    }
    return End(std::move(encoded));
  }

  // is_joined: no space before the next token, since the last one ends with a joiner or nothing has
  // been written.
  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string text;
    bool is_joined = true;  // no space before the first
    for (const int32_t id : ids) {
      if (IsSilent(id)) {
        continue;
      }
      const JoinedPiece piece = Piece(id);
      const bool is_nothing = piece.text.empty() && !piece.joins_before;
      absl::StrAppend(&text, is_joined || piece.joins_before || is_nothing ? "" : " ", piece.text);
      is_joined = piece.joins_behind || (is_joined && piece.text.empty());
    }
    return ValidUtf8(text);
  }

  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id)) {
      return "";
    }
    const JoinedPiece piece = Piece(id);
    const bool is_joined = is_first || piece.joins_before || piece.text.empty();
    return absl::StrCat(is_joined ? "" : " ", piece.text);
  }

  std::string WrittenBehind(int32_t id, int32_t before) const override {
    return Written(id, before < 0 || Piece(before).joins_behind);
  }

  int32_t TokenId(const std::string& token) const override { return vocabulary_.Find(token); }
  std::string TokenText(int32_t id) const override {
    return id >= 0 && id < size() ? vocabulary_.token(id) : absl::StrCat("<", id, ">");
  }
  int size() const override { return vocabulary_.size(); }

 private:
  // The best way to some byte of a word, by whether its last token joins what follows.
  struct Way {
    int64_t cost = std::numeric_limits<int64_t>::max();
    size_t from = 0;  // the byte and state before its last token
    size_t from_state = 0;
    int32_t id = -1;  // -1: a character that no token writes
  };
  using Ways = std::vector<std::array<Way, 2>>;
  // Where a word is in its text.
  struct Place {
    bool is_first = false;
    bool is_last = false;
  };
  static constexpr int64_t kToken = 4;
  static constexpr int64_t kMissing = int64_t{1} << 30;

  JoinerCodec() = default;

  JoinedPiece Piece(int32_t id) const {
    return id >= 0 && id < size() ? pieces_[static_cast<size_t>(id)]
                                  : JoinedPiece{absl::StrCat("<", id, ">"), false, false};
  }

  absl::Status FindPieces(const v1::TextConfig& config) {
    for (int32_t id = 0; id < size(); ++id) {
      pieces_.push_back(PieceOf(vocabulary_.token(id)));
      const JoinedPiece& piece = pieces_.back();
      if (std::any_of(piece.text.begin(), piece.text.end(), absl::ascii_isspace)) {
        return Invalid("vocabulary: '", config.vocabulary(), "': line ", id + 1, ": '",
                       vocabulary_.token(id), "' contains white space, which separates tokens");
      }
      if (!IsSilent(id) && piece.joins_before && piece.text.empty()) {
        joiner_id_ = id;
      }
      if (!IsSilent(id) && !piece.text.empty()) {
        auto& ids =
            ids_.try_emplace(piece.text, std::array<int32_t, 4>{-1, -1, -1, -1}).first->second;
        ids[(piece.joins_before ? 1U : 0U) + (piece.joins_behind ? 2U : 0U)] = id;
        longest_ = std::max(longest_, piece.text.size());
      }
    }
    return absl::OkStatus();
  }

  static void Offer(const Way& way, Way& best) {
    if (way.cost < best.cost) {
      best = way;
    }
  }

  // Ways one token further than (at, state). State 1: no space would be written there, since a word
  // begins or the last token joins what follows.
  void Extend(absl::string_view word, Place place, size_t at, size_t state, Ways& ways) const {
    const int64_t cost = ways[at][state].cost;
    const absl::string_view rest = word.substr(at);
    if (state == 0 && joiner_id_ >= 0) {
      Offer({cost + kToken, at, state, joiner_id_}, ways[at][1]);
    }
    for (size_t length = 1; length <= std::min(longest_, rest.size()); ++length) {
      const auto found = ids_.find(rest.substr(0, length));
      if (found == ids_.end()) {
        continue;
      }
      const size_t end = at + length;
      for (size_t kind = 0; kind < 4; ++kind) {
        const bool joins_before = (kind & 1) != 0;
        const bool joins_behind = (kind & 2) != 0;
        // A token would swallow the space before or behind the word, or write one inside it.
        if (found->second[kind] < 0 || (joins_before && at == 0 && !place.is_first) ||
            (joins_behind && end == word.size() && !place.is_last) ||
            (!joins_before && state == 0)) {
          continue;
        }
        // A joiner where nothing is to be joined is a sign of another cut.
        const int64_t idle =
            (joins_before && state == 1 ? 1 : 0) + (joins_behind && end == word.size() ? 1 : 0);
        Offer({cost + kToken + idle, at, state, found->second[kind]},
              ways[end][joins_behind ? 1 : 0]);
      }
    }
    const auto character = static_cast<size_t>(std::max(Utf8Length(rest), 1));
    Offer({cost + kMissing, at, state, -1}, ways[std::min(at + character, word.size())][1]);
  }

  // Appends the fewest tokens that write the word. position: tokens before it; grows by them.
  absl::Status CutWord(absl::string_view word, Place place, size_t& position,
                       EncodedText& encoded) const {
    constexpr size_t kMostLookUps = size_t{1} << 22;
    if (word.size() > kMostLookUps / std::max<size_t>(longest_, 1)) {
      return status::InvalidField("text", "has a word of ", word.size(), " bytes; at most ",
                                  kMostLookUps / longest_, " are cut into tokens");
    }
    Ways ways(word.size() + 1);
    ways[0][1].cost = 0;
    for (size_t at = 0; at < word.size(); ++at) {
      for (const size_t state : {size_t{0}, size_t{1}}) {
        if (ways[at][state].cost != Way().cost) {
          Extend(word, place, at, state, ways);
        }
      }
    }
    struct Step {
      absl::string_view text;
      int32_t id;
    };
    std::vector<Step> steps;  // the last first
    const auto& last = ways[word.size()];
    size_t state = last[1].cost < last[0].cost ? 1 : 0;
    for (size_t at = word.size(); at > 0;) {
      const Way& way = ways[at][state];
      steps.push_back({word.substr(way.from, at - way.from), way.id});
      at = way.from;
      state = way.from_state;
    }
    for (size_t i = steps.size(); i-- > 0; ++position) {
      if (steps[i].id < 0) {
        BW_RETURN_IF_ERROR(AppendUnknown(steps[i].text, "piece", position, encoded));
        continue;
      }
      if (steps[i].id == unknown_id_) {
        encoded.unknown_positions.push_back(static_cast<int32_t>(encoded.ids.size()));
      }
      encoded.ids.push_back(steps[i].id);
    }
    return absl::OkStatus();
  }

  bool lowercase_ = false;
  Vocabulary vocabulary_;
  std::vector<JoinedPiece> pieces_;  // by id
  // By text: the ids of the tokens that write it, by 1 (joins before) + 2 (joins behind).
  absl::flat_hash_map<std::string, std::array<int32_t, 4>> ids_;
  int32_t joiner_id_ = -1;  // the token that is a joiner alone
  size_t longest_ = 0;      // text of a piece, in bytes
};

}  // namespace

bool HasJoiners(const v1::TextConfig& config, const Vocabulary& vocabulary) {
  int found = 0;
  for (int32_t id = 0; config.form() == v1::TEXT_FORM_PIECES &&
                       config.mark() == v1::SUBWORD_MARK_WORD_BEGIN && id < vocabulary.size();
       ++id) {
    const std::string& token = vocabulary.token(id);
    if (absl::StartsWith(token, kWordBegin)) {
      return false;
    }
    found += absl::StartsWith(token, kJoiner) || absl::EndsWith(token, kJoiner) ? 1 : 0;
  }
  return found > 1;
}

bool IsJoinerCodec(const TextCodec& codec) {
  return dynamic_cast<const JoinerCodec*>(&codec) != nullptr;
}

absl::StatusOr<std::unique_ptr<TextCodec>> CreateJoinerCodec(const v1::TextConfig& config,
                                                             Vocabulary vocabulary) {
  return JoinerCodec::Create(config, std::move(vocabulary));
}

}  // namespace beamwright::bundle
