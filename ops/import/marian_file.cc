// Reads Marian's binary format, version 1:
//
//   version, number of arrays             8 bytes each
//   a head per array                      length of the name, type, rank, bytes
//   the names, each with a zero byte at the end
//   the shapes, 4 bytes per extent
//   length of a gap, the gap
//   the elements of each array, padded
//
// MarianFile::Read reads everything but the elements, whose places it keeps; each number is checked
// against what is left of the file (MarianReader), since a file may claim anything. Options is the
// text of an array with a special name. Floats and Integers make tensors that are read when needed;
// intgemm's arrays have 8-bit integers and a multiplier after them.
#include "ops/import/marian_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/import/graph_file.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::ops {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kVersion = 1;
constexpr uint64_t kMaxArrays = 10'000;
constexpr uint64_t kMaxRank = 8;
constexpr int64_t kMaxOptionBytes = int64_t{1} << 20;
constexpr char kOptions[] = "special:model.yml";

// Type codes of browsermt's fork, which trains and converts the models of Firefox.
constexpr uint64_t kF32Code = 0x404;
constexpr uint64_t kI8Code = 0x101;
constexpr uint64_t kIntgemm8Code = 0x4101;

struct ArrayHead {
  uint64_t name_bytes = 0;
  uint64_t type = 0;
  uint64_t rank = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(ArrayHead) == 32);

absl::StatusOr<MarianArray::Type> TypeOf(uint64_t code) {
  switch (code) {
    case kF32Code:
      return MarianArray::Type::kF32;
    case kI8Code:
      return MarianArray::Type::kI8;
    case kIntgemm8Code:
      return MarianArray::Type::kIntgemm8;
    case 0x802:
    case 0x1801:
    case 0x2801:
      return absl::UnimplementedError(
          "its elements are packed for FBGEMM and one kind of CPU; convert the float32 model with "
          "browsermt's marian-conv --gemm-type intgemm8, or give the float32 model");
    default:
      break;
  }
  constexpr uint64_t kPackedIntgemm = 0x10000;
  return absl::UnimplementedError(absl::StrCat(
      "its elements have type ", absl::StrFormat("0x%x", code),
      (code & kPackedIntgemm) != 0 ? ", which is intgemm as marian-dev packs it for one kind of CPU"
                                   : "",
      "; float32 (0x404), int8 (0x101) and intgemm8 (0x4101) are read: convert with browsermt's "
      "marian-conv --gemm-type intgemm8"));
}

// Reads one part of the file after the other; nothing is read that does not lie in it.
class MarianReader {
 public:
  explicit MarianReader(const InputFile& file) : file_(file) {}

  uint64_t left() const { return static_cast<uint64_t>(file_.size() - at_); }
  int64_t at() const { return at_; }

  absl::Status Read(uint64_t bytes, void* out) {
    BW_RETURN_IF_ERROR(Has(bytes));
    BW_RETURN_IF_ERROR(file_.Read(at_, static_cast<int64_t>(bytes), out));
    return Skip(bytes);
  }
  absl::Status Skip(uint64_t bytes) {
    BW_RETURN_IF_ERROR(Has(bytes));
    at_ += static_cast<int64_t>(bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Number() {
    uint64_t number = 0;
    BW_RETURN_IF_ERROR(Read(sizeof(number), &number));
    return number;
  }

 private:
  absl::Status Has(uint64_t bytes) const {
    return bytes <= left() ? absl::OkStatus()
                           : Invalid("is cut short, or no Marian model: ", bytes,
                                     " bytes are to follow byte ", at_, ", ", left(), " do");
  }

  const InputFile& file_;
  int64_t at_ = 0;
};

absl::StatusOr<std::vector<ArrayHead>> ReadHeads(MarianReader& reader) {
  BW_ASSIGN_OR_RETURN(const uint64_t version, reader.Number());
  if (version != kVersion) {
    return Invalid("is not a Marian model: it begins with the number ", version,
                   "; files of version 1 are read");
  }
  BW_ASSIGN_OR_RETURN(const uint64_t count, reader.Number());
  if (count > kMaxArrays) {
    return Invalid("is not a Marian model: it claims ", count, " arrays; at most ", kMaxArrays,
                   " are allowed");
  }
  if (count > reader.left() / sizeof(ArrayHead)) {
    return Invalid("is cut short: it claims ", count, " arrays");
  }
  std::vector<ArrayHead> heads(count);
  BW_RETURN_IF_ERROR(reader.Read(count * sizeof(ArrayHead), heads.data()));
  return heads;
}

absl::StatusOr<std::string> ReadName(const ArrayHead& head, MarianReader& reader) {
  constexpr uint64_t kMaxName = 1024;
  if (head.name_bytes < 2 || head.name_bytes > kMaxName) {
    return Invalid("the name of an array takes ", head.name_bytes, " bytes; 2 to ", kMaxName,
                   " are allowed");
  }
  std::string name(head.name_bytes, '\0');
  BW_RETURN_IF_ERROR(reader.Read(name.size(), name.data()));
  name.pop_back();
  if (name != Printable(name)) {
    return Invalid("'", Printable(name), "' is not the name of an array");
  }
  return name;
}

absl::StatusOr<Shape> ReadShape(const ArrayHead& head, MarianReader& reader) {
  if (head.rank < 1 || head.rank > kMaxRank) {
    return Invalid("has rank ", head.rank, "; 1 to ", kMaxRank, " are allowed");
  }
  int32_t extents[kMaxRank] = {};
  BW_RETURN_IF_ERROR(reader.Read(head.rank * sizeof(int32_t), extents));
  Shape shape(extents, extents + head.rank);
  BW_RETURN_IF_ERROR(CheckedNumElements(shape).status());
  return shape;
}

// Notes where the elements are and skips them, with the padding after them.
absl::Status PlaceElements(const ArrayHead& head, MarianReader& reader, MarianArray& array) {
  BW_ASSIGN_OR_RETURN(array.type, TypeOf(head.type));
  const auto elements = static_cast<uint64_t>(NumElements(array.shape));
  const uint64_t needed = array.type == MarianArray::Type::kF32  ? elements * sizeof(float)
                          : array.type == MarianArray::Type::kI8 ? elements
                                                                 : elements + sizeof(float);
  if (head.bytes < needed) {
    return Invalid("has ", head.bytes, " bytes of elements; its shape ", ToString(array.shape),
                   " takes ", needed);
  }
  array.offset = reader.at();
  return reader.Skip(head.bytes);
}

}  // namespace

absl::StatusOr<MarianFile> MarianFile::Read(InputFilePtr file) {
  MarianFile result;
  MarianReader reader(*file);
  BW_ASSIGN_OR_RETURN(const std::vector<ArrayHead> heads, ReadHeads(reader));
  std::vector<std::string> names;
  for (const ArrayHead& head : heads) {
    BW_ASSIGN_OR_RETURN(names.emplace_back(), ReadName(head, reader));
  }
  std::vector<MarianArray> arrays(heads.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    absl::StatusOr<Shape> shape = ReadShape(heads[i], reader);
    if (!shape.ok()) {
      return Annotate(shape.status(), absl::StrCat("'", names[i], "'"));
    }
    arrays[i].shape = *std::move(shape);
  }
  BW_ASSIGN_OR_RETURN(const uint64_t gap, reader.Number());
  BW_RETURN_IF_ERROR(reader.Skip(gap));
  for (size_t i = 0; i < heads.size(); ++i) {
    BW_RETURN_IF_ERROR(
        Annotate(PlaceElements(heads[i], reader, arrays[i]), absl::StrCat("'", names[i], "'")));
    if (!result.arrays_.emplace(names[i], std::move(arrays[i])).second) {
      return Invalid("'", names[i], "' is there twice");
    }
  }
  result.file_ = std::move(file);
  return result;
}

const MarianArray* MarianFile::Find(absl::string_view name) const {
  const auto found = arrays_.find(std::string(name));
  return found == arrays_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::string> MarianFile::Options() const {
  const MarianArray* const array = Find(kOptions);
  if (array == nullptr || array->type != MarianArray::Type::kI8) {
    return Invalid("has no options: the array '", kOptions,
                   "' of type int8 is missing, which marian-conv writes");
  }
  const int64_t bytes = NumElements(array->shape);
  if (bytes > kMaxOptionBytes) {
    return Invalid("'", kOptions, "' has ", bytes, " bytes; at most ", kMaxOptionBytes,
                   " are allowed");
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  BW_RETURN_IF_ERROR(file_->Read(array->offset, bytes, text.data()));
  return text.substr(0, text.find('\0'));
}

absl::StatusOr<Tensor> MarianFile::Floats(const MarianArray& array, const Shape& shape) const {
  if (array.type == MarianArray::Type::kF32) {
    return ReadTensor(file_, array.offset, DType::kF32, shape);
  }
  BW_ASSIGN_OR_RETURN(const float multiplier, Multiplier(array));
  const auto count = static_cast<size_t>(NumElements(shape));
  return MakeConstant(
      DType::kF32, shape,
      [file = file_, offset = array.offset, count, multiplier](std::byte* out) -> absl::Status {
        // The integers are read into the end of the room for the floats, which overtake none.
        auto* const floats = reinterpret_cast<float*>(out);
        const auto* const integers = reinterpret_cast<const int8_t*>(out) + 3 * count;
        BW_RETURN_IF_ERROR(file->Read(offset, static_cast<int64_t>(count), out + 3 * count));
        for (size_t i = 0; i < count; ++i) {
          const int8_t integer = integers[i];
          floats[i] = static_cast<float>(integer) / multiplier;
        }
        return file->CheckUnchanged();
      });
}

absl::StatusOr<Tensor> MarianFile::Integers(const MarianArray& array, const Shape& shape) const {
  return ReadTensor(file_, array.offset, DType::kI8, shape);
}

absl::StatusOr<float> MarianFile::Multiplier(const MarianArray& array) const {
  float multiplier = 0;
  BW_RETURN_IF_ERROR(
      file_->Read(array.offset + NumElements(array.shape), sizeof(multiplier), &multiplier));
  // Its inverse must be a number as well.
  if (!(multiplier > 0) || !std::isfinite(127 / multiplier)) {
    return Invalid("its multiplier ", multiplier, " is not a positive finite number");
  }
  return multiplier;
}

// Reads the YAML text that Marian writes into its models, which says how the network is built.
//
// 1. SplitOptions reads the subset of YAML that Marian writes: "name: value" lines, lists as "-
//    element" lines.
// 2. Refuse: an option with a value that the importer does not build is an error, and so is an
//    unknown option, unless its value turns it off (IsOff) or it has no effect on what the model
//    computes (kPassedOver). A model that is built wrongly gives bad translations without an error,
//    which is worse than a refusal. All refused options are listed at once.
// 3. Read takes the numbers and flags of the layers, with Marian's defaults, in bounds.

namespace {

using OptionValues = std::map<std::string, std::string>;

// What an option must be for the graph that is built.
struct RequiredOption {
  absl::string_view name;
  absl::string_view fallback;  // Marian's default, where the file leaves the option out
  std::vector<absl::string_view> implemented;
};

const std::vector<RequiredOption>& RequiredOptions() {
  static const auto* const options = new std::vector<RequiredOption>{
      {"type", "amun", {"transformer", "s2s", "nematus"}},
      {"transformer-decoder-autoreg", "self-attention", {"self-attention", "rnn"}},
      // Letters: d dropout, which is off, a add the input, n normalise.
      {"transformer-preprocess", "", {"", "d"}},
      {"transformer-postprocess", "dan", {"dan", "an"}},
      {"transformer-postprocess-emb", "d", {"d", ""}},
      {"transformer-postprocess-top", "", {"", "d"}},
      {"transformer-ffn-activation", "swish", {"swish", "relu", "gelu"}},
      {"transformer-ffn-depth", "2", {"2"}},
      {"transformer-decoder-ffn-depth", "0", {"0", "2"}},
      {"transformer-attention-mask", "default", {"default"}},
      {"factors-combine", "sum", {"sum"}},
  };
  return *options;
}

// The same for models of the types s2s and nematus.
const std::vector<RequiredOption>& RequiredOptionsOfS2s() {
  static const auto* const options = new std::vector<RequiredOption>{
      {"type", "amun", {"transformer", "s2s", "nematus"}},
      {"enc-type", "bidirectional", {"bidirectional"}},
      {"enc-cell", "gru", {"gru", "gru-nematus"}},
      {"dec-cell", "gru", {"gru", "gru-nematus"}},
      {"enc-depth", "1", {"1"}},
      {"dec-depth", "1", {"1"}},
      {"enc-cell-depth", "1", {"1"}},
      {"dec-cell-base-depth", "2", {"2"}},
      {"dec-cell-high-depth", "1", {"1"}},
      {"skip", "false", {"false"}},
      {"factors-combine", "sum", {"sum"}},
  };
  return *options;
}

// Options without effect on what a transformer computes: they belong to other architectures or to
// training.
constexpr absl::string_view kPassedOver[] = {
    "bert-train-type-embeddings",
    "bert-type-vocab-size",
    "dec-cell",
    "dec-cell-base-depth",
    "dec-cell-high-depth",
    "dim-rnn",
    "dim-vocabs",
    "enc-cell",
    "enc-cell-depth",
    "enc-type",
    "separator-symbol",
    "skip",
    "transformer-aan-activation",
    "transformer-aan-depth",
    "transformer-aan-nogate",
    "transformer-depth-scaling",
    "transformer-dim-aan",
    "transformer-guided-alignment-layer",
    "ulr-dim-emb",
    "ulr-trainable-transformation",
    "version",
};

constexpr absl::string_view kRead[] = {
    "dim-emb",
    "transformer-heads",
    "enc-depth",
    "dec-depth",
    "tied-embeddings",
    "transformer-dim-ffn",
    "tied-embeddings-all",
    "tied-embeddings-src",
    "transformer-decoder-dim-ffn",
};

std::string Unquoted(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

// Lists become their elements with commas between; an empty list "".
absl::StatusOr<OptionValues> SplitOptions(absl::string_view yaml) {
  OptionValues values;
  std::string* last = nullptr;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(yaml, '\n')) {
    ++number;
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text.front() == '#') {
      continue;
    }
    if (line.front() == ' ' || line.front() == '-') {
      if (last == nullptr) {
        return Invalid("line ", number, " of its options belongs to none");
      }
      std::string element = text == "[]" ? "" : Unquoted(text.substr(text.front() == '-' ? 1 : 0));
      absl::StrAppend(last, last->empty() || element.empty() ? "" : ",", element);
      continue;
    }
    const size_t colon = text.find(':');
    if (colon == absl::string_view::npos || colon == 0) {
      return Invalid("line ", number, " of its options is not 'name: value'");
    }
    const auto [at, fresh] =
        values.emplace(std::string(text.substr(0, colon)), Unquoted(text.substr(colon + 1)));
    if (!fresh) {
      return Invalid("option '", Printable(at->first), "' is there twice");
    }
    if (at->second == "[]") {
      at->second.clear();
    }
    last = &at->second;
  }
  return values;
}

template <typename Names>
bool IsAmong(const Names& names, absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Whether an unknown option is turned off by its value.
bool IsOff(absl::string_view value) {
  static constexpr absl::string_view kOff[] = {"", "0", "false", "none", "null", "~"};
  return IsAmong(kOff, value);
}

class OptionReader {
 public:
  explicit OptionReader(OptionValues values) : values_(std::move(values)) {}

  absl::StatusOr<MarianOptions> Read() {
    options_.has_nematus_names = Value("type", "") == "nematus";
    options_.is_s2s = options_.has_nematus_names || Value("type", "") == "s2s";
    options_.has_self_attention =
        !options_.is_s2s && Value("transformer-decoder-autoreg", "self-attention") != "rnn";
    BW_RETURN_IF_ERROR(Refuse());
    options_.has_gru_cells = Value("dec-cell", "gru") == "gru";
    ReadActivation();
    BW_ASSIGN_OR_RETURN(options_.width, Number("dim-emb", 512, 4, 65536));
    BW_ASSIGN_OR_RETURN(options_.heads, Number("transformer-heads", 8, 1, 1024));
    BW_ASSIGN_OR_RETURN(options_.encoder_layers, Number("enc-depth", 1, 1, 256));
    BW_ASSIGN_OR_RETURN(options_.decoder_layers, Number("dec-depth", 1, 1, 256));
    BW_ASSIGN_OR_RETURN(options_.encoder_ffn, Number("transformer-dim-ffn", 2048, 1, 1 << 20));
    BW_ASSIGN_OR_RETURN(options_.decoder_ffn, Number("transformer-decoder-dim-ffn", 0, 0, 1 << 20));
    options_.decoder_ffn = options_.decoder_ffn == 0 ? options_.encoder_ffn : options_.decoder_ffn;
    BW_ASSIGN_OR_RETURN(const bool all, Flag("tied-embeddings-all"));
    BW_ASSIGN_OR_RETURN(const bool source, Flag("tied-embeddings-src"));
    BW_ASSIGN_OR_RETURN(const bool target, Flag("tied-embeddings"));
    options_.shared_embeddings = all || source;
    options_.tied_output = all || target;
    BW_ASSIGN_OR_RETURN(options_.state_width, Number("dim-rnn", 1024, 1, 65536));
    if (options_.is_s2s) {
      return std::move(options_);
    }
    if (options_.width % options_.heads != 0 || options_.width % 2 != 0) {
      return Invalid("option 'dim-emb' is ", options_.width,
                     "; it must be even and a multiple of transformer-heads, ", options_.heads);
    }
    return std::move(options_);
  }

 private:
  std::string Value(absl::string_view name, absl::string_view fallback) const {
    const auto found = values_.find(std::string(name));
    return found == values_.end() ? std::string(fallback) : found->second;
  }

  void ReadActivation() {
    const std::string name = Value("transformer-ffn-activation", "swish");
    options_.activation = name == "relu"   ? MarianActivation::kRelu
                          : name == "gelu" ? MarianActivation::kGelu
                                           : MarianActivation::kSwish;
  }

  absl::Status Refuse() {
    std::vector<RequiredOption> required =
        options_.is_s2s ? RequiredOptionsOfS2s() : RequiredOptions();
    if (!options_.is_s2s && !options_.has_self_attention) {
      required.push_back({"dec-cell", "gru", {"ssru", "gru"}});
    }
    std::vector<std::string> refused;
    for (const RequiredOption& option : required) {
      const std::string value = Value(option.name, option.fallback);
      if (!IsAmong(option.implemented, value)) {
        refused.push_back(absl::StrCat("option '", option.name, "' is '", Printable(value), "'; '",
                                       absl::StrJoin(option.implemented, "' or '"),
                                       "' is implemented"));
      }
    }
    for (const auto& [name, value] : values_) {
      const std::string& given = name;  // clang's OpenMP captures no structured binding
      const bool is_required =
          std::any_of(required.begin(), required.end(),
                      [&given](const RequiredOption& option) { return option.name == given; });
      if (is_required || IsAmong(kRead, name)) {
        continue;
      }
      const bool is_foreign = options_.is_s2s && absl::StartsWith(name, "transformer-");
      if (IsAmong(kPassedOver, name) || is_foreign || IsOff(value)) {
        options_.passed_over.push_back(Printable(name));
      } else {
        refused.push_back(absl::StrCat("option '", Printable(name), "' is '", Printable(value),
                                       "', which is not implemented"));
      }
    }
    return refused.empty() ? absl::OkStatus()
                           : absl::UnimplementedError(absl::StrJoin(refused, "; "));
  }

  absl::StatusOr<int64_t> Number(const std::string& name, int64_t fallback, int64_t least,
                                 int64_t most) {
    const auto found = values_.find(name);
    int64_t number = fallback;
    if (found != values_.end() && !absl::SimpleAtoi(found->second, &number)) {
      return Invalid("option '", name, "' is '", Printable(found->second), "', not a number");
    }
    if (number < least || number > most) {
      return Invalid("option '", name, "' is ", number, "; it must be in [", least, ", ", most,
                     "]");
    }
    return number;
  }

  absl::StatusOr<bool> Flag(const std::string& name) {
    const auto found = values_.find(name);
    if (found == values_.end() || found->second == "false") {
      return false;
    }
    return found->second == "true" ? absl::StatusOr<bool>(true)
                                   : Invalid("option '", name, "' is '", Printable(found->second),
                                             "'; it must be true or false");
  }

  const OptionValues values_;
  MarianOptions options_;
};

}  // namespace

absl::StatusOr<MarianOptions> ParseMarianOptions(absl::string_view yaml) {
  BW_ASSIGN_OR_RETURN(OptionValues values, SplitOptions(yaml));
  return OptionReader(std::move(values)).Read();
}

}  // namespace beamwright::ops
