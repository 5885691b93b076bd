// Reads the files of tokenizers that work on bytes: a tokenizer.json of byte-level BPE
// (JsonReader), and RWKV's vocabulary (ReadRwkv).
//
// JsonReader. The sections of the file: model (vocabulary and merges), normalizer, pre_tokenizer,
// added_tokens.
//
// 1. CheckModel, CheckNormalizer: settings that would change the tokens and are not supported are
//    errors.
// 2. ReadSplits: the patterns by which a text is split before merging (split_pattern.h). ByteLevel
//    has GPT-2's pattern, unless use_regex is false.
// 3. ReadVocabulary: texts of tokens to ids. The file writes each byte as a printable character
//    ("Ġ" is a space); BytesOfPiece turns them back to bytes.
// 4. ReadAdded: special tokens, whose texts are plain.
// 5. ReadMerges: pairs of tokens in the order of their ranks, "t he" or ["t", "he"], as ids.
//
// ReadRwkv. A line is "ID LITERAL BYTES", LITERAL a string or bytes literal of Python, BYTES its
// length, which is checked. Its tokenizer takes the longest token at each place instead of merging.
//
// Ids are bounded by the number of tokens (MostIds): an id of 2 billion in a small file must not
// make a table of that length.
#include "engine/bundle/tokenizer_file.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/bundle/codec_base.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

// A bound on the ids of a file with this number of tokens, and so on the memory that it takes.
size_t MostIds(size_t tokens) { return 2 * tokens + 1024; }

constexpr absl::string_view kGptPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Reads a tokenizer.json.
class JsonReader {
 public:
  absl::StatusOr<TokenizerFile> Read(absl::string_view content) {
    rapidjson::Document document;
    document.Parse<rapidjson::kParseIterativeFlag>(content.data(), content.size());
    if (document.HasParseError() || !document.IsObject()) {
      return Invalid("is not JSON: ", document.HasParseError()
                                          ? rapidjson::GetParseError_En(document.GetParseError())
                                          : "an object is expected");
    }
    const Json* const model = Member(document, "model");
    if (model == nullptr) {
      return Invalid("model: is missing");
    }
    const Json* const vocabulary = Member(*model, "vocab");
    const Json* const added = Member(document, "added_tokens");
    most_ids_ =
        MostIds((vocabulary != nullptr && vocabulary->IsObject() ? vocabulary->MemberCount() : 0) +
                (added != nullptr && added->IsArray() ? added->Size() : 0));
    BW_RETURN_IF_ERROR(CheckModel(*model));
    BW_RETURN_IF_ERROR(CheckNormalizer(document));
    BW_RETURN_IF_ERROR(ReadSplits(document));
    BW_RETURN_IF_ERROR(ReadVocabulary(*model));
    BW_RETURN_IF_ERROR(ReadAdded(document));
    BW_RETURN_IF_ERROR(ReadMerges(*model));
    return std::move(file_);
  }

 private:
  absl::Status CheckModel(const Json& model) {
    const absl::string_view type = TypeOf(model);
    // Older files have merges and state no type.
    if (type != "BPE" && !(type.empty() && Member(model, "merges") != nullptr)) {
      return Invalid("model.type: '", type,
                     "' is not read; byte-level BPE, Unigram and WordPiece are");
    }
    for (const char* const name :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      const Json* const value = Member(model, name);
      const bool is_off = value == nullptr || (value->IsBool() && !value->GetBool()) ||
                          (value->IsString() && value->GetStringLength() == 0) ||
                          (value->IsNumber() && value->GetDouble() == 0);
      if (!is_off) {
        return Invalid("model.", name, ": is not read: byte-level BPE has none");
      }
    }
    file_.takes_whole_words = IsTrue(model, "ignore_merges");
    return absl::OkStatus();
  }

  static absl::Status CheckNormalizer(const Json& document) {
    const Json* const normalizer = Member(document, "normalizer");
    if (normalizer == nullptr) {
      return absl::OkStatus();
    }
    for (const Json* const one : Sequence(normalizer, "normalizers")) {
      if (TypeOf(*one) != "NFC") {
        return Invalid("normalizer: '", TypeOf(*one),
                       "' is not read; NFC is, as text of that form");
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddSplit(absl::string_view pattern, bool adds_space, bool splits) {
    auto parsed = SplitPattern::Parse(pattern);
    if (!parsed.ok()) {
      return Annotate(parsed.status(), absl::StrCat("pre_tokenizer: pattern '", pattern, "'"));
    }
    file_.splits.push_back({*std::move(parsed), adds_space, splits});
    return absl::OkStatus();
  }

  absl::Status ReadSplits(const Json& document) {
    const Json* const all = Member(document, "pre_tokenizer");
    bool is_of_bytes = false;
    for (const Json* const one : Sequence(all, "pretokenizers")) {
      const absl::string_view type = TypeOf(*one);
      if (type == "ByteLevel") {
        is_of_bytes = true;
        const Json* const regex = Member(*one, "use_regex");
        const bool splits = regex == nullptr || !regex->IsBool() || regex->GetBool();
        BW_RETURN_IF_ERROR(AddSplit(kGptPattern, IsTrue(*one, "add_prefix_space"), splits));
      } else if (type == "Digits") {
        BW_RETURN_IF_ERROR(
            AddSplit(IsTrue(*one, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)", false, true));
      } else if (type == "Split") {
        const Json* const pattern = Member(*one, "pattern");
        const Json* const regex = pattern == nullptr ? nullptr : Member(*pattern, "Regex");
        const Json* const behavior = Member(*one, "behavior");
        if (regex == nullptr || behavior == nullptr || Text(*behavior) != "Isolated" ||
            IsTrue(*one, "invert")) {
          return Invalid(
              "pre_tokenizer: a Split is read if its pattern is a Regex, its behavior "
              "Isolated, and invert false");
        }
        BW_RETURN_IF_ERROR(AddSplit(Text(*regex), false, true));
      } else {
        return Invalid("pre_tokenizer: '", type, "' is not read; ByteLevel, Split and Digits are");
      }
    }
    return is_of_bytes ? absl::OkStatus()
                       : Invalid("pre_tokenizer: has no ByteLevel: only byte-level BPE is read");
  }

  absl::Status SetToken(const std::string& where, absl::string_view text, const Json& id,
                        bool is_plain) {
    if (!id.IsInt() || id.GetInt() < 0 || static_cast<size_t>(id.GetInt()) >= most_ids_ ||
        text.empty()) {
      return Invalid(where, ": '", absl::Utf8SafeCEscape(text), "' has no usable id or text");
    }
    const auto place = static_cast<size_t>(id.GetInt());
    file_.tokens.resize(std::max(file_.tokens.size(), place + 1));
    TokenizerFile::Token& token = file_.tokens[place];
    if (!token.text.empty() && token.text != text) {
      return Invalid(where, ": id ", place, " is that of '", absl::Utf8SafeCEscape(token.text),
                     "' and of '", absl::Utf8SafeCEscape(text), "'");
    }
    token.text = std::string(text);
    token.bytes = is_plain ? std::string(text) : BytesOfPiece(text, table_);
    return absl::OkStatus();
  }

  absl::Status ReadVocabulary(const Json& model) {
    const Json* const vocabulary = Member(model, "vocab");
    if (vocabulary == nullptr || !vocabulary->IsObject()) {
      return Invalid("model.vocab: an object is expected");
    }
    for (const auto& member : vocabulary->GetObject()) {
      if (Text(member.name).empty()) {
        continue;  // Whisper's id 50256, which no text has
      }
      BW_RETURN_IF_ERROR(SetToken("model.vocab", Text(member.name), member.value, false));
      ids_[std::string(Text(member.name))] = member.value.GetInt();
    }
    return absl::OkStatus();
  }

  absl::Status ReadAdded(const Json& document) {
    const Json* const added = Member(document, "added_tokens");
    if (added == nullptr) {
      return absl::OkStatus();
    }
    if (!added->IsArray()) {
      return Invalid("added_tokens: a list is expected");
    }
    for (const Json& one : added->GetArray()) {
      const Json* const id = Member(one, "id");
      const Json* const content = Member(one, "content");
      if (id == nullptr || content == nullptr) {
        return Invalid("added_tokens: an entry lacks its id or content");
      }
      if (IsTrue(one, "single_word")) {
        return Invalid("added_tokens: '", Text(*content), "': single_word is not read");
      }
      BW_RETURN_IF_ERROR(SetToken("added_tokens", Text(*content), *id, true));
      file_.added.push_back(
          {id->GetInt(), IsTrue(one, "lstrip"), IsTrue(one, "rstrip"), IsTrue(one, "special")});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int32_t> IdOf(absl::string_view token, size_t rank) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? Invalid("model.merges[", rank, "]: '",
                                         absl::Utf8SafeCEscape(token), "' is not in model.vocab")
                               : absl::StatusOr<int32_t>(found->second);
  }

  absl::Status ReadMerges(const Json& model) {
    const Json* const merges = Member(model, "merges");
    if (merges == nullptr || !merges->IsArray()) {
      return Invalid("model.merges: a list is expected");
    }
    for (const Json& merge : merges->GetArray()) {
      const size_t rank = file_.merges.size();
      absl::string_view left;
      absl::string_view right;
      if (merge.IsArray() && merge.Size() == 2) {
        left = Text(merge[0]);
        right = Text(merge[1]);
      } else {
        const std::pair<absl::string_view, absl::string_view> both =
            absl::StrSplit(Text(merge), absl::MaxSplits(' ', 1));
        left = both.first;
        right = both.second;
      }
      TokenizerFile::Merge& added = file_.merges.emplace_back();
      BW_ASSIGN_OR_RETURN(added.left, IdOf(left, rank));
      BW_ASSIGN_OR_RETURN(added.right, IdOf(right, rank));
      BW_ASSIGN_OR_RETURN(added.joined, IdOf(absl::StrCat(left, right), rank));
    }
    return absl::OkStatus();
  }

  const absl::flat_hash_map<char32_t, char> table_ = GptBytes();
  absl::flat_hash_map<std::string, int32_t> ids_;
  size_t most_ids_ = 0;
  TokenizerFile file_;
};

// Appends the bytes of a literal of Python, 'text' or b'bytes'; false if it is no such literal.
bool ReadLiteral(absl::string_view literal, std::string& bytes) {
  const bool is_bytes = absl::ConsumePrefix(&literal, "b");
  if (literal.size() < 2 || (literal.front() != '\'' && literal.front() != '"') ||
      literal.back() != literal.front()) {
    return false;
  }
  literal = literal.substr(1, literal.size() - 2);
  while (!literal.empty()) {
    if (literal.front() != '\\' || literal.size() < 2) {
      bytes.push_back(literal.front());
      literal.remove_prefix(1);
      continue;
    }
    const char kind = literal[1];
    literal.remove_prefix(2);
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (digits > 0) {
      if (literal.size() < digits || !absl::SimpleHexAtoi(literal.substr(0, digits), &code)) {
        return false;
      }
      literal.remove_prefix(digits);
      is_bytes ? bytes.push_back(static_cast<char>(code)) : AppendUtf8(code, bytes);
      continue;
    }
    constexpr absl::string_view kKinds = "nrt0abfv";
    constexpr absl::string_view kValues("\n\r\t\0\a\b\f\v", 8);
    const size_t place = kKinds.find(kind);
    bytes.push_back(place == absl::string_view::npos ? kind : kValues[place]);
  }
  return true;
}

// RWKV's rwkv_vocab_v20230424.txt: ID LITERAL BYTES a line. Id 0 is the end of a text.
absl::StatusOr<TokenizerFile> ReadRwkv(absl::string_view content) {
  TokenizerFile file;
  file.takes_longest = true;
  file.tokens.push_back({"<|endoftext|>", "<|endoftext|>"});
  const size_t most_ids =
      MostIds(static_cast<size_t>(std::count(content.begin(), content.end(), '\n')));
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    const absl::string_view whole = absl::StripSuffix(line, "\r");
    if (whole.empty()) {
      continue;
    }
    const size_t first = whole.find(' ');
    const size_t last = whole.rfind(' ');
    size_t id = 0;
    size_t size = 0;
    std::string bytes;
    if (first == absl::string_view::npos || last <= first ||
        !absl::SimpleAtoi(whole.substr(0, first), &id) ||
        !absl::SimpleAtoi(whole.substr(last + 1), &size) || id == 0 || id >= most_ids ||
        !ReadLiteral(whole.substr(first + 1, last - first - 1), bytes) || bytes.size() != size ||
        bytes.empty()) {
      return Invalid("line ", number, ": is not an id, a literal of Python and its bytes");
    }
    file.tokens.resize(std::max(file.tokens.size(), id + 1));
    if (!file.tokens[id].text.empty()) {
      return Invalid("line ", number, ": id ", id, " is there already");
    }
    file.tokens[id] = {std::string(whole.substr(first + 1, last - first - 1)), std::move(bytes)};
  }
  return file;
}

bool IsRwkv(absl::string_view content) {
  std::string bytes;
  const absl::string_view line = content.substr(0, content.find('\n'));
  const std::vector<absl::string_view> parts = absl::StrSplit(absl::StripSuffix(line, "\r"), ' ');
  return parts.size() == 3 && parts[0] == "1" && ReadLiteral(parts[1], bytes) && parts[2] == "1" &&
         bytes.size() == 1;
}

}  // namespace

absl::StatusOr<TokenizerFile> TokenizerFile::Parse(absl::string_view content) {
  if (IsRwkv(content)) {
    return ReadRwkv(content);
  }
  return JsonReader().Read(content);
}

bool IsTokenizerFile(absl::string_view content) {
  const absl::string_view begin = absl::StripLeadingAsciiWhitespace(content.substr(0, 64));
  return (absl::StartsWith(begin, "{") && content.size() > 64 &&
          absl::StrContains(content, "\"model\"")) ||
         IsRwkv(content);
}

}  // namespace beamwright::bundle
