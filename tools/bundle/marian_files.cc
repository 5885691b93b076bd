// Two things about files of Marian's models: the .bin file of a .npz archive (MarianBinOf), and
// pieces of SentencePiece models in the order of a list of tokens (NumberPieces).
//
// The .bin file, with the sizes of its parts in bytes (little endian):
//
//   8 version 1, 8 number of arrays
//   32 for each array: bytes of its name, type, rank, bytes of its elements with padding
//   the names, each with a zero byte behind it
//   4 for each extent of each array
//   8 for the length of a gap, and the gap, up to a multiple of 256
//   the elements, each array from a multiple of 256 on
//
// Arrays are in the order of their names, so that the bytes depend on the arrays alone.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>
#include <map>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/token_file.h"

namespace beamwright::tools {
namespace {

using ops::Tensor;

constexpr size_t kAlignment = 256;
constexpr uint64_t kF32Type = 0x404;
constexpr uint64_t kI8Type = 0x101;

template <typename T>
void AppendNumber(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

size_t Padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

absl::StatusOr<uint64_t> TypeOf(const std::string& name, const Tensor& array) {
  if (array.dtype() == ops::DType::kF32) {
    return kF32Type;
  }
  if (array.dtype() == ops::DType::kI8 && absl::StartsWith(name, "special:")) {
    return kI8Type;
  }
  return absl::UnimplementedError(absl::StrCat("array '", Printable(name), "' has type ",
                                               ops::Name(array.dtype()),
                                               "; f32 is expected of Marian's parameters"));
}

}  // namespace

// The elements' types are f32 (0x404), and i8 (0x101) for the options, which are a text.
absl::StatusOr<std::string> MarianBinOf(const ops::TensorMap& arrays) {
  if (!arrays.contains("special:model.yml")) {
    return Invalid("is not a Marian model: it has no array 'special:model.yml' with the options");
  }
  std::string out;
  AppendNumber<uint64_t>(1, out);
  AppendNumber<uint64_t>(arrays.size(), out);
  for (const auto& [name, array] : arrays) {
    BW_ASSIGN_OR_RETURN(const uint64_t type, TypeOf(name, array));
    AppendNumber<uint64_t>(name.size() + 1, out);
    AppendNumber<uint64_t>(type, out);
    AppendNumber<uint64_t>(static_cast<uint64_t>(array.rank()), out);
    AppendNumber<uint64_t>(Padded(static_cast<size_t>(array.num_bytes())), out);
  }
  for (const auto& [name, array] : arrays) {
    out.append(name).push_back('\0');
  }
  for (const auto& [name, array] : arrays) {
    for (const int64_t extent : array.shape()) {
      AppendNumber(static_cast<int32_t>(extent), out);
    }
  }
  const size_t begin = Padded(out.size() + sizeof(uint64_t));
  AppendNumber<uint64_t>(begin - out.size() - sizeof(uint64_t), out);
  out.resize(begin);
  for (const auto& [name, array] : arrays) {
    out.append(reinterpret_cast<const char*>(array.bytes()),
               static_cast<size_t>(array.num_bytes()));
    out.resize(Padded(out.size()));
  }
  return out;
}

// Numbers the pieces of a SentencePiece model by a list of tokens. OPUS-MT's models have one
// vocabulary for both languages (ReadTokenIds reads *.vocab.yml, lines of "token: id", and JSON)
// and a SentencePiece model per language, whose pieces have other numbers.
//
// NumberPieces rewrites a SentencePiece model so that its piece i is token i: pieces that the model
// has are copied, the special tokens and tags such as >>fra<< are added, and tokens that only the
// other language has become unused pieces. It reads and writes protobuf's wire format directly, so
// that fields that are not known here are kept.

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

constexpr int kMostIds = 1 << 22;
constexpr char kSpaceMark[] = "\xe2\x96\x81";

// Numbers of sentencepiece_model.proto: fields of ModelProto and SentencePiece, and kinds of
// pieces.
constexpr int kPiecesField = 1;
constexpr int kTextField = 1;
constexpr int kTypeField = 3;
constexpr int kUnknownPiece = 2;
constexpr int kControlPiece = 3;
constexpr int kUserDefinedPiece = 4;
constexpr int kUnusedPiece = 5;

// A YAML scalar; nothing if it is not whole.
std::optional<std::string> YamlScalar(absl::string_view text) {
  std::string token;
  if (absl::StartsWith(text, "\"")) {
    const bool is_whole = text.size() >= 2 && absl::EndsWith(text, "\"");
    return is_whole && absl::CUnescape(text.substr(1, text.size() - 2), &token)
               ? std::make_optional(token)
               : std::nullopt;
  }
  if (absl::StartsWith(text, "'")) {
    return text.size() >= 2 && absl::EndsWith(text, "'")
               ? std::make_optional(
                     absl::StrReplaceAll(text.substr(1, text.size() - 2), {{"''", "'"}}))
               : std::nullopt;
  }
  return std::string(text);
}

// A SentencePiece of this kind, without a score.
std::string PieceOf(const std::string& text, int type) {
  std::string piece;
  {
    StringOutputStream written(&piece);
    CodedOutputStream out(&written);
    WireFormatLite::WriteBytes(kTextField, text, &out);
    WireFormatLite::WriteEnum(kTypeField, type, &out);
  }
  return piece;
}

// The text of a SentencePiece message.
std::optional<std::string> TextOfPiece(const std::string& piece) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(piece.data()),
                      static_cast<int>(piece.size()));
  std::optional<std::string> text;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag == (kTextField << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) {
      if (!WireFormatLite::ReadBytes(&in, &text.emplace())) {
        return std::nullopt;
      }
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      return std::nullopt;
    }
  }
  return in.ConsumedEntireMessage() ? text : std::nullopt;
}

}  // namespace

// The last colon of a line is the one before the id: a token may be a colon. Ids must be 0, 1, 2
// and so on in any order, without a gap.
absl::StatusOr<std::vector<std::string>> ReadTokenIds(absl::string_view content) {
  if (IsJsonObject(content)) {
    BW_ASSIGN_OR_RETURN(std::vector<std::string> tokens, TokensOfObject(std::string(content)));
    return absl::c_linear_search(tokens, "")
               ? absl::StatusOr<std::vector<std::string>>(Invalid("a token is empty"))
               : std::move(tokens);
  }
  std::map<int, std::string> by_id;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) {
      continue;
    }
    const size_t colon = line.rfind(':');
    int id = -1;
    if (colon == absl::string_view::npos || !absl::SimpleAtoi(line.substr(colon + 1), &id) ||
        id < 0 || id >= kMostIds) {
      return Invalid("line ", line_number, " is not 'token: id'");
    }
    const auto token = YamlScalar(absl::StripAsciiWhitespace(line.substr(0, colon)));
    if (!token.has_value() || token->empty()) {
      return Invalid("line ", line_number, " has no token before its id");
    }
    if (!by_id.emplace(id, *token).second) {
      return Invalid("line ", line_number, ": id ", id, " is there twice");
    }
  }
  std::vector<std::string> tokens;
  for (auto& [id, token] : by_id) {
    if (id != static_cast<int>(tokens.size())) {
      return Invalid("id ", tokens.size(), " is missing");
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// 1. Every field of the model is read. Pieces are kept by their text, all other fields go to `rest`
//    as they are.
// 2. A piece is written for each token, in order: <unk> and </s> anew, with the kind that the codec
//    expects; a piece that the model has as it is, with its score; tags as pieces that users
//    define; anything else as a piece that is never used.
// 3. `rest` follows. Fields of a protobuf message may come in any order.
absl::StatusOr<std::string> NumberPieces(const std::string& model,
                                         const std::vector<std::string>& tokens) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(model.data()),
                      static_cast<int>(model.size()));
  std::map<std::string, std::string> pieces;  // messages by their texts
  std::string rest;
  {
    StringOutputStream kept(&rest);
    CodedOutputStream out(&kept);
    bool is_whole = true;
    while (const uint32_t tag = is_whole ? in.ReadTag() : 0) {
      if (tag != (kPiecesField << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) {
        is_whole = WireFormatLite::SkipField(&in, tag, &out);
        continue;
      }
      std::string piece;
      is_whole = WireFormatLite::ReadBytes(&in, &piece);
      const std::optional<std::string> text = TextOfPiece(piece);
      is_whole = is_whole && text.has_value();
      if (is_whole) {
        pieces.emplace(*text, std::move(piece));
      }
    }
    if (!is_whole || !in.ConsumedEntireMessage() || pieces.empty()) {
      return Invalid("is not a SentencePiece model");
    }
  }
  std::string numbered;
  size_t num_found = 0;
  {
    StringOutputStream written(&numbered);
    CodedOutputStream out(&written);
    const auto write = [&out](const std::string& piece) {
      WireFormatLite::WriteBytes(kPiecesField, piece, &out);
    };
    for (const std::string& token : tokens) {
      const auto found = pieces.find(token);
      if (token == "</s>" || token == "<unk>") {
        write(PieceOf(token, token == "<unk>" ? kUnknownPiece : kControlPiece));
      } else if (found != pieces.end()) {
        write(found->second);
        ++num_found;
      } else if (absl::StartsWith(token, ">>") && absl::EndsWith(token, "<<")) {
        write(PieceOf(absl::StrCat(kSpaceMark, token), kUserDefinedPiece));
      } else {
        write(PieceOf(token, kUnusedPiece));
      }
    }
  }
  if (num_found == 0) {
    return Invalid("has no piece that is one of the tokens with ids; is it of another model?");
  }
  return numbered + rest;
}

}  // namespace beamwright::tools
