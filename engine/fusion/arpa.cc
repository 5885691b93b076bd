// Reads n-gram models in the ARPA format:
//
//   \data\          (headers stand between backslashes)
//   ngram 1=4
//   ngram 2=2
//
//   \1-grams:
//   -1.2  the   -0.3          log10 probability, words, log10 back-off weight
//   \2-grams:
//   -0.4  the cat
//   \end\           (the last line)
//
// ReadCounts bounds the counts by what the rest of the file can hold, ReadSection reads the n-grams
// of one order and compares their number. Words become tokens by `token_of`; an n-gram with a word
// that is no token is left out, as nothing ever asks for it. ReadArpaWords reads the unigrams only,
// for models of words whose words become tokens later.
//
// UnpackGzip unpacks files in memory, with a bound on how much they may grow.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/fusion/ngram_files.h"
#include "ops/base/status.h"

namespace beamwright::fusion {
namespace {

// A line or word as messages show it.
std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 60;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMost)),
                      text.size() > kMost ? "...'" : "'");
}

class Reader {
 public:
  Reader(absl::string_view content, const NgramVocabulary& vocabulary,
         const std::function<int32_t(absl::string_view)>& token_of)
      : rest_(content), vocabulary_(vocabulary), token_of_(token_of) {}

  absl::StatusOr<std::vector<std::string>> ReadWords() {
    BW_RETURN_IF_ERROR(ReadCounts());
    if (line_ != "\\1-grams:") {
      return Here("expected \\1-grams:");
    }
    std::vector<std::string> words;
    while (NextLine() && line_[0] != '\\') {
      fields_ = absl::StrSplit(line_, absl::ByAnyChar(" \t\r\v\f"), absl::SkipEmpty());
      if (fields_.size() < 2) {
        return Here("expected a logarithm and a word");
      }
      if (!IsSpecial(fields_[1])) {
        words.emplace_back(fields_[1]);
      }
    }
    return words;
  }

  absl::StatusOr<std::vector<Ngram>> Read() {
    BW_RETURN_IF_ERROR(ReadCounts());
    for (size_t order = 1; order <= counts_.size(); ++order) {
      BW_RETURN_IF_ERROR(ReadSection(order));
    }
    if (line_ != "\\end\\") {
      return Here("expected \\end\\");
    }
    if (!has_token_) {
      return Invalid("none of the ", counts_[0], " unigrams is a token of the target vocabulary");
    }
    return std::move(ngrams_);
  }

 private:
  // The next line that is not blank, without white space around it; false at the end.
  bool NextLine() {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = absl::StripAsciiWhitespace(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      if (!line_.empty()) {
        return true;
      }
    }
    line_ = {};
    return false;
  }

  template <typename... Pieces>
  absl::Status Here(const Pieces&... pieces) const {
    return line_.empty() ? Invalid("line ", number_, ": the file ends; ", pieces...)
                         : Invalid("line ", number_, ": ", pieces..., ", found ", Shown(line_));
  }

  absl::Status ReadCounts() {
    while (NextLine() && line_ != "\\data\\") {
      // Anything may stand before it.
    }
    if (line_.empty()) {
      return Here("expected \\data\\");
    }
    while (NextLine() && absl::StartsWith(line_, "ngram")) {
      absl::string_view text = line_;
      absl::ConsumePrefix(&text, "ngram");
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(text, absl::MaxSplits('=', 1));
      int64_t order = 0;
      int64_t count = 0;
      if (!absl::SimpleAtoi(parts.first, &order) || !absl::SimpleAtoi(parts.second, &count) ||
          order != static_cast<int64_t>(counts_.size()) + 1 || order > NgramModel::kMaxOrder) {
        return Here("expected 'ngram ", counts_.size() + 1, "=COUNT', of order ",
                    NgramModel::kMaxOrder, " at most");
      }
      // A line has at least a digit, a blank, a letter and its end.
      constexpr int64_t kLeastBytes = 4;
      if (count < (order == 1 ? 1 : 0) ||
          count > static_cast<int64_t>(rest_.size()) / kLeastBytes) {
        return Here("a count between ", order == 1 ? 1 : 0, " and what the file's ", rest_.size(),
                    " further bytes can hold");
      }
      counts_.push_back(count);
    }
    return counts_.empty() ? Here("expected 'ngram 1=COUNT'") : absl::OkStatus();
  }

  absl::Status ReadSection(size_t order) {
    if (line_ != absl::StrCat("\\", order, "-grams:")) {
      return Here("expected \\", order, "-grams:");
    }
    int64_t count = 0;
    while (NextLine() && line_[0] != '\\') {
      if (++count > counts_[order - 1]) {
        return Here("more than the ", counts_[order - 1], " n-grams of order ", order,
                    " that the header announces");
      }
      BW_RETURN_IF_ERROR(ReadNgram(order));
    }
    if (count != counts_[order - 1]) {
      return Here("expected ", counts_[order - 1], " n-grams of order ", order, ", read ", count);
    }
    return absl::OkStatus();
  }

  absl::Status ReadNgram(size_t order) {
    fields_ = absl::StrSplit(line_, absl::ByAnyChar(" \t\r\v\f"), absl::SkipEmpty());
    const bool is_last = order == counts_.size();
    const bool has_backoff = fields_.size() == order + 2;
    if (fields_.size() != order + 1 && !(has_backoff && !is_last)) {
      return Here("expected a logarithm, ", order, " words",
                  is_last ? "" : " and perhaps a back-off weight");
    }
    Ngram ngram;
    ngram.line = number_;
    if (!absl::SimpleAtof(fields_[0], &ngram.log10_prob) || !std::isfinite(ngram.log10_prob) ||
        ngram.log10_prob > 0) {
      return Here("expected a finite logarithm of a probability, at most 0");
    }
    if (has_backoff && (!absl::SimpleAtof(fields_[order + 1], &ngram.log10_backoff) ||
                        !std::isfinite(ngram.log10_backoff))) {
      return Here("expected a finite back-off weight behind the words");
    }
    bool known = true;
    for (size_t i = 1; i <= order && known; ++i) {
      const int32_t word = WordOf(fields_[i]);
      known = word >= 0;
      ngram.words.push_back(word);
    }
    if (known) {
      has_token_ = has_token_ || ngram.words[0] < vocabulary_.num_tokens;
      ngrams_.push_back(std::move(ngram));
    }
    return absl::OkStatus();
  }

  static bool IsSpecial(absl::string_view text) {
    return text == "<s>" || text == "</s>" || text == "<unk>" || text == "<UNK>";
  }

  int32_t WordOf(absl::string_view text) const {
    if (text == "<s>") {
      return vocabulary_.begin_word();
    }
    if (text == "</s>") {
      return vocabulary_.end_word();
    }
    if (text == "<unk>" || text == "<UNK>") {
      return vocabulary_.unknown_word();
    }
    return token_of_(text);
  }

  absl::string_view rest_;
  absl::string_view line_;
  int number_ = 0;
  const NgramVocabulary& vocabulary_;
  const std::function<int32_t(absl::string_view)>& token_of_;
  std::vector<int64_t> counts_;
  std::vector<absl::string_view> fields_;
  std::vector<Ngram> ngrams_;
  bool has_token_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const NgramModel>> ReadArpa(
    absl::string_view content, const NgramVocabulary& vocabulary,
    const std::function<int32_t(absl::string_view)>& token_of) {
  BW_ASSIGN_OR_RETURN(std::vector<Ngram> ngrams, Reader(content, vocabulary, token_of).Read());
  return NgramModel::Create(vocabulary, std::move(ngrams));
}

absl::StatusOr<std::vector<std::string>> ReadArpaWords(absl::string_view content) {
  const NgramVocabulary none;
  const std::function<int32_t(absl::string_view)> no_token;
  return Reader(content, none, no_token).ReadWords();
}

bool IsGzip(absl::string_view content) { return absl::StartsWith(content, "\x1f\x8b"); }

absl::StatusOr<std::string> UnpackGzip(absl::string_view packed) {
  constexpr size_t kMostGrowth = 200;
  constexpr size_t kPart = size_t{1} << 20;
  const size_t most = packed.size() * kMostGrowth;
  z_stream stream = {};
  constexpr int kGzipAlone = 16;
  if (inflateInit2(&stream, kGzipAlone + MAX_WBITS) != Z_OK) {
    return absl::ResourceExhaustedError("gzip: no memory");
  }
  const auto end = absl::MakeCleanup([&stream] { inflateEnd(&stream); });
  std::string text;
  size_t read = 0;
  size_t written = 0;
  int result = Z_OK;
  // A file may be several packed ones in a row.
  while (read < packed.size() || result == Z_OK) {
    if (result == Z_STREAM_END && (inflateReset(&stream), !IsGzip(packed.substr(read)))) {
      break;  // padding
    }
    if (written > most) {
      return Invalid("gzip: unpacks to more than ", kMostGrowth, " times its size");
    }
    if (text.size() < written + kPart / 2) {
      text.resize(written + kPart);
    }
    const size_t room = text.size() - written;
    const size_t given = std::min(packed.size() - read, kPart);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) {
      return Invalid("gzip: ", result == Z_BUF_ERROR ? "the file is cut short" : "damaged data",
                     " at byte ", read);
    }
    read += given - stream.avail_in;
    written += room - stream.avail_out;
  }
  text.resize(written);
  return text;
}

}  // namespace beamwright::fusion
