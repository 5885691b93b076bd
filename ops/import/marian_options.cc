// Reads the YAML text that Marian writes into its models, which says how the network is built.
//
// 1. SplitOptions reads the subset of YAML that Marian writes: "name: value" lines, lists as "-
//    element" lines.
// 2. Refuse: an option with a value that the importer does not build is an error, and so is an
//    unknown option, unless its value turns it off (IsOff) or it has no effect on what the model
//    computes (kPassedOver). A model that is built wrongly gives bad translations without an error,
//    which is worse than a refusal. All refused options are listed at once.
// 3. Read takes the numbers and flags of the layers, with Marian's defaults, in bounds.
#include "ops/import/marian_options.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"

namespace beamwright::ops {
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
