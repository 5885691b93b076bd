// Reads lists of target tokens as toolkits write them: a token a line; "TOKEN ID" a line; or a JSON
// object of ids by token. Parse finds the form: JSON by its brace, numbered lines if all lines end
// with a number; ids must count from 0 without a gap or a repetition (InOrder).
//
// PiecesOfTokenizer makes a list of the pieces of a tokenizer.json of BPE with byte fallback, which
// is enough to write text, though not to read it. WithUnixLines drops a byte-order mark and
// carriage returns.
#include "tools/bundle/token_file.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::tools {

// Guesses how the tokens of a vocabulary are joined to text (FindSubwordMark), from the marks that
// they have, such as "▁" at the beginning of words, "##" or "@@". The table `marks` is in order of
// precedence; the first mark that enough tokens have is taken, and a sentence about it is added to
// `reasons`.
//
// Lists of icefall's byte-level BPE look like SentencePiece's, except that all characters are ASCII
// or one of its letters for bytes, and many are the latter (AreIcefallBytes).

namespace {

constexpr absl::string_view kWordBegin = "\xE2\x96\x81";  // U+2581
constexpr absl::string_view kJoiner = "\xEF\xBF\xAD";     // U+FFED
constexpr absl::string_view kGptSpace = "\xC4\xA0";       // U+0120

// Whether every character is ASCII or a letter with which icefall writes a byte.
bool MayBeIcefallBytes(absl::string_view token) {
  while (!token.empty()) {
    char32_t character = 0;
    const int size = Utf8Length(token, &character);
    const bool fits = size > 0 && ((character >= 32 && character <= 126) || character == 0x2581 ||
                                   (character >= 256 && character <= 422));
    if (!fits) {
      return false;
    }
    token.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

// Bytes that no ASCII text has are most of what such a list is for.
bool AreIcefallBytes(const std::vector<std::string>& tokens) {
  int64_t letters = 0;
  for (const std::string& token : tokens) {
    if (!MayBeIcefallBytes(token)) {
      return false;
    }
    letters += std::any_of(token.begin(), token.end(),
                           [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) &&
                       token != kWordBegin && !absl::StartsWith(token, kWordBegin)
                   ? 1
                   : 0;
  }
  return letters * 4 > static_cast<int64_t>(tokens.size());
}

}  // namespace

bool LooksSpecial(absl::string_view token) {
  return token.size() > 2 && ((token.front() == '<' && token.back() == '>') ||
                              (token.front() == '[' && token.back() == ']'));
}

std::optional<v1::SubwordMark> FindSubwordMark(const std::string& side,
                                               const std::vector<std::string>& tokens,
                                               std::vector<std::string>& reasons) {
  const auto count = [&](auto test) {
    return std::count_if(tokens.begin(), tokens.end(), [&](const std::string& token) {
      return !LooksSpecial(token) && test(absl::string_view(token));
    });
  };
  const auto begins = [&](absl::string_view mark) {
    return count([mark](absl::string_view token) {
      return token.size() > mark.size() && absl::StartsWith(token, mark);
    });
  };
  const auto ends = [&](absl::string_view mark) {
    return count([mark](absl::string_view token) {
      return token.size() > mark.size() && absl::EndsWith(token, mark);
    });
  };
  const int64_t word_begins =
      count([](absl::string_view token) { return absl::StartsWith(token, kWordBegin); });
  const int64_t joiners = count([](absl::string_view token) {
    return absl::StartsWith(token, kJoiner) || absl::EndsWith(token, kJoiner);
  });
  struct {
    int64_t found;
    v1::SubwordMark mark;
    const char* what;
  } const marks[] = {
      {AreIcefallBytes(tokens) ? word_begins : 0, v1::SUBWORD_MARK_ICEFALL_BYTES,
       "tokens begin with '▁', and all are ASCII or letters of icefall's byte-level BPE: each "
       "character is a byte"},
      // The vocabulary itself says that it has joiners (bundle::HasJoiners).
      {word_begins == 0 && joiners > 1 ? joiners : 0, v1::SUBWORD_MARK_WORD_BEGIN,
       "tokens have OpenNMT's joiner '￭', which takes the place of a space"},
      {word_begins, v1::SUBWORD_MARK_WORD_BEGIN, "tokens begin with '▁', which begins a word"},
      {begins(kGptSpace), v1::SUBWORD_MARK_BYTES,
       "tokens begin with 'Ġ', the space of byte-level BPE: each character is a byte"},
      {ends("</w>"), v1::SUBWORD_MARK_WORD_END, "tokens end with '</w>', which ends a word"},
      {begins("##"), v1::SUBWORD_MARK_CONTINUATION, "tokens begin with '##', which goes on a word"},
      {ends("@@"), v1::SUBWORD_MARK_UNFINISHED, "tokens end with '@@': the word goes on"},
  };
  for (const auto& [found, mark, what] : marks) {
    const int64_t enough = mark == v1::SUBWORD_MARK_WORD_BEGIN ? 1 : 2;
    if (found >= enough) {
      reasons.push_back(absl::StrCat(side, " text is joined from pieces: ", found, " ", what));
      return mark;
    }
  }
  return std::nullopt;
}

namespace {

// A file with more tokens than this is not a list of tokens.
constexpr int64_t kMostTokens = 1 << 24;

struct NumberedToken {
  std::string token;
  int64_t id = 0;
};

absl::StatusOr<std::vector<std::string>> InOrder(const std::vector<NumberedToken>& listed) {
  std::map<int64_t, std::string> by_id;
  for (const auto& [token, id] : listed) {
    const auto [it, fresh] = by_id.try_emplace(id, token);
    if (!fresh) {
      return Invalid("'", it->second, "' and '", token, "' both have the id ", id);
    }
  }
  std::vector<std::string> tokens;
  for (auto& [id, token] : by_id) {
    if (id != static_cast<int64_t>(tokens.size())) {
      return Invalid("no token has the id ", tokens.size(), "; ids count from 0");
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// "TOKEN ID" of a line.
std::optional<NumberedToken> Numbered(absl::string_view line) {
  const size_t gap = line.find_last_of(" \t");
  NumberedToken found;
  const absl::string_view id = gap == absl::string_view::npos ? line : line.substr(gap + 1);
  if (!absl::SimpleAtoi(id, &found.id) || found.id < 0 || found.id >= kMostTokens) {
    return std::nullopt;
  }
  const absl::string_view token =
      gap == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(line.substr(0, gap));
  found.token = token.empty() ? " " : std::string(token);
  return found;
}

// The lines up to the last that is not empty, and how many follow it.
std::vector<absl::string_view> Lines(absl::string_view content, int64_t& empty_tail) {
  std::vector<absl::string_view> lines = absl::StrSplit(absl::StripSuffix(content, "\n"), '\n');
  empty_tail = 0;
  while (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
    ++empty_tail;
  }
  return lines;
}

// The numbered tokens, if every line is numbered; else no value. A list of one token a line may
// contain numbers, but not only ids that count.
std::optional<std::vector<NumberedToken>> AllNumbered(const std::vector<absl::string_view>& lines) {
  std::vector<NumberedToken> listed;
  bool any_token = false;
  for (const absl::string_view line : lines) {
    std::optional<NumberedToken> token = Numbered(line);
    if (!token.has_value()) {
      return std::nullopt;
    }
    any_token = any_token || token->token != " ";
    listed.push_back(*std::move(token));
  }
  return any_token ? std::make_optional(std::move(listed)) : std::nullopt;
}

absl::StatusOr<google::protobuf::Struct> ParseObject(const std::string& content) {
  google::protobuf::Struct object;
  const auto parsed = google::protobuf::util::JsonStringToMessage(content, &object);
  if (!parsed.ok()) {
    return Invalid("it begins with '{', but is not a JSON object: ",
                   std::string(parsed.message().data(), parsed.message().size()));
  }
  return object;
}

absl::StatusOr<std::vector<NumberedToken>> IdsByToken(const google::protobuf::Struct& object) {
  std::vector<NumberedToken> listed;
  for (const auto& [token, value] : object.fields()) {
    const double id = value.number_value();
    const bool is_id = value.kind_case() == google::protobuf::Value::kNumberValue && id >= 0 &&
                       id < static_cast<double>(kMostTokens) &&
                       id == static_cast<double>(static_cast<int64_t>(id));
    if (!is_id) {
      return Invalid("'", token, "' has no id; the file must be an object of ids by token");
    }
    listed.push_back({token, static_cast<int64_t>(id)});
  }
  return listed;
}

absl::StatusOr<TokenFile> Parse(absl::string_view content, std::string& form) {
  TokenFile file;
  int64_t empty_tail = 0;
  const std::vector<absl::string_view> lines = Lines(content, empty_tail);
  if (lines.empty()) {
    return Invalid("it is empty");
  }
  if (IsJsonObject(content)) {
    form = "a JSON object of ids by token";
    file.is_json = true;
    BW_ASSIGN_OR_RETURN(file.tokens, TokensOfObject(std::string(content)));
    return file;
  }
  if (const auto listed = AllNumbered(lines); listed.has_value()) {
    form = "a token and its id on each line";
    BW_ASSIGN_OR_RETURN(file.tokens, InOrder(*listed));
    return file;
  }
  form = "one token a line";
  file.tokens = std::vector<std::string>(lines.begin(), lines.end());
  file.empty_tail = empty_tail;
  return file;
}

}  // namespace

bool IsJsonObject(absl::string_view content) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(content), "{");
}

absl::StatusOr<std::vector<std::string>> TokensOfObject(const std::string& content) {
  BW_ASSIGN_OR_RETURN(const google::protobuf::Struct object, ParseObject(content));
  BW_ASSIGN_OR_RETURN(const std::vector<NumberedToken> listed, IdsByToken(object));
  return InOrder(listed);
}

bool IsNumberedList(absl::string_view content) {
  if (IsJsonObject(content)) {
    const auto object = ParseObject(std::string(content));
    const auto listed = object.ok() ? IdsByToken(*object) : object.status();
    // A token with a line end could not be a line of the bundle's vocabulary.
    return listed.ok() && absl::c_none_of(*listed, [](const NumberedToken& token) {
             return absl::StrContains(token.token, '\n');
           });
  }
  int64_t empty_tail = 0;
  const auto listed = AllNumbered(Lines(content, empty_tail));
  for (size_t i = 0; listed.has_value() && i < listed->size(); ++i) {
    if ((*listed)[i].id != static_cast<int64_t>(i)) {
      return false;
    }
  }
  return listed.has_value();
}

absl::StatusOr<std::optional<std::string>> PiecesOfTokenizer(const std::string& content) {
  const absl::StatusOr<google::protobuf::Struct> file = ParseObject(content);
  if (!file.ok()) {
    return std::optional<std::string>();
  }
  const auto member = [](const google::protobuf::Struct& object, const char* name) {
    const auto found = object.fields().find(name);
    return found == object.fields().end() ? google::protobuf::Value() : found->second;
  };
  const google::protobuf::Struct model = member(*file, "model").struct_value();
  if (member(model, "type").string_value() != "BPE" ||
      !member(model, "byte_fallback").bool_value()) {
    return std::optional<std::string>();
  }
  BW_ASSIGN_OR_RETURN(std::vector<NumberedToken> listed,
                      IdsByToken(member(model, "vocab").struct_value()));
  std::set<int64_t> known;
  for (const NumberedToken& token : listed) {
    known.insert(token.id);
  }
  const google::protobuf::Value all_added = member(*file, "added_tokens");
  for (const auto& added : all_added.list_value().values()) {
    const auto id = static_cast<int64_t>(member(added.struct_value(), "id").number_value());
    if (known.insert(id).second) {
      listed.push_back({member(added.struct_value(), "content").string_value(), id});
    }
  }
  BW_ASSIGN_OR_RETURN(const std::vector<std::string> tokens, InOrder(listed));
  return std::optional(absl::StrCat(absl::StrJoin(tokens, "\n"), "\n"));
}

std::string WithUnixLines(absl::string_view content) {
  absl::ConsumePrefix(&content, "\xEF\xBB\xBF");
  return absl::StrReplaceAll(content, {{"\r\n", "\n"}});
}

absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path, const std::string& content,
                                        std::vector<std::string>& reasons) {
  std::string form;
  absl::StatusOr<TokenFile> file = Parse(WithUnixLines(content), form);
  if (!file.ok()) {
    return Annotate(file.status(), absl::StrCat("vocabulary '", path, "'"));
  }
  reasons.push_back(absl::StrCat("target vocabulary: ", file->tokens.size(), " tokens of '", path,
                                 "', which has ", form));
  return file;
}

}  // namespace beamwright::tools
