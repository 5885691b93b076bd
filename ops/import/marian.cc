// Both graphs of a model are built whenever one is wanted: only so is it known that each array of
// the file is one that a graph reads. Constants stay in the file, so that costs little.
//
// The formulas are those of Marian's transformer (Vaswani et al. 2017, normalisation behind each
// layer) and of the SSRU (Kim et al. 2019, "From Research to Production and Back"):
//   x_t = sqrt(width) * E[token] + P(t), P(t) the sinusoids, all sines before all cosines
//   encoder layer: x = norm(attention(x, x) + x); x = norm(W2 relu(W1 x) + x)
//   decoder layer: f = sigmoid(Wf x + bf); c' = f * c + (1 - f) * W x; y = norm(relu(c') + x);
//                  y = norm(attention(y, memory) + y); x = norm(W2 relu(W1 y) + y)
// or, of a GRU (Cho et al. 2014), r, z = sigmoid(W x + U c + b); h = tanh(Wx x + r * Ux c + bx);
//                  c' = (1 - z) * h + z * c; y = norm(c' + x)
#include "ops/import/marian.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/graph/node_appender.h"
#include "ops/import/file_kind.h"
#include "ops/import/marian_file.h"
#include "ops/import/marian_options.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kEncoderSuffix = ".bin#encoder";
constexpr absl::string_view kDecoderSuffix = ".bin#decoder";
constexpr absl::string_view kAlpha = "_QuantMultA";  // scales of activations, which are not read
constexpr char kOutputBias[] = "decoder_ff_logit_out_b";
constexpr char kOutputMatrix[] = "decoder_ff_logit_out_W";

Attributes MarianAttribute(const char* name, AttributeValue value) {
  Attributes attributes;
  attributes.Set(name, std::move(value));
  return attributes;
}

// What both graphs read of a file: its arrays, of which each must be read by one of them.
class MarianArrays {
 public:
  MarianArrays(const MarianFile& file, const MarianOptions& options)
      : file_(file), options_(options) {}

  const MarianOptions& options() const { return options_; }
  const MarianFile& file() const { return file_; }

  // An array of this shape; -1 is any extent. The first fault is kept, and nullptr returned.
  const MarianArray* Take(const std::string& name, const Shape& shape) {
    const MarianArray* const array = file_.Find(name);
    taken_.insert(name);
    if (array == nullptr) {
      return Fault(Invalid("array '", name, "' is missing, which the options ask for"));
    }
    if (!PartialShape(shape).Accepts(array->shape)) {
      return Fault(Invalid("array '", name, "' has shape ", ToString(array->shape), "; ",
                           ToString(shape), " is what the options ask for"));
    }
    if (array->type == MarianArray::Type::kI8) {
      return Fault(Invalid("array '", name, "' has type int8; float32 or intgemm8 is expected"));
    }
    return array;
  }
  template <typename T>
  T Value(const std::string& name, absl::StatusOr<T> value) {
    if (!value.ok()) {
      Fault(Annotate(value.status(), absl::StrCat("array '", name, "'")));
      return T();
    }
    return *std::move(value);
  }

  // The first fault, or that the file holds what no graph reads.
  absl::Status Finish() const {
    BW_RETURN_IF_ERROR(status_);
    std::vector<std::string> unread;
    for (const auto& [name, array] : file_.arrays()) {
      if (!taken_.contains(name) && !absl::EndsWith(name, kAlpha) &&
          !absl::StartsWith(name, "special:")) {
        unread.push_back(name);
      }
    }
    return unread.empty()
               ? absl::OkStatus()
               : absl::UnimplementedError(absl::StrCat(
                     "array '", unread[0], "'",
                     unread.size() > 1 ? absl::StrCat(" and ", unread.size() - 1, " others") : "",
                     ": no layer that is implemented reads it"));
  }

 private:
  const MarianArray* Fault(absl::Status status) {
    status_.Update(std::move(status));
    return nullptr;
  }

  const MarianFile& file_;
  const MarianOptions& options_;
  std::set<std::string> taken_;
  absl::Status status_;
};

// The layers that encoder and decoder share. Values are [rows, length, width] in the encoder and
// [rows, width] in the decoder.
class MarianLayers {
 public:
  MarianLayers(MarianArrays& arrays, Graph& graph, int rank)
      : arrays_(arrays), options_(arrays.options()), graph_(graph), rank_(rank) {}

 protected:
  // Nodes that bear the name of what they are part of.
  NodeAppender At(const std::string& name) { return NodeAppender(graph_, name); }

  ValueId Parameter(const std::string& name, DType dtype, Shape shape) {
    const ValueId value = At(name).Add("Parameter", {});
    ValueInfo& info = graph_.nodes.back().outputs[0];
    info.dtype = dtype;
    info.shape = PartialShape(std::move(shape));
    info.names = {name};
    graph_.parameters.push_back(value.node);
    return value;
  }
  void Result(const std::string& name, ValueId value) {
    At(name).Add("Result", {value}, {}, 0);
    graph_.results.push_back(static_cast<int>(graph_.nodes.size()) - 1);
    graph_.node(value.node).outputs[static_cast<size_t>(value.output)].names = {name};
  }

  ValueId Number(NodeAppender& add, float value) { return add.Constant(Tensor::Scalar(value)); }

  // A constant of an array [1, extent], as [extent].
  ValueId Vector(const std::string& name, int64_t extent) {
    const MarianArray* const array = arrays_.Take(name, {1, extent});
    return array == nullptr ? NoConstant()
                            : Constant(name, arrays_.file().Floats(*array, {extent}));
  }
  // x * W of a matrix [depth, columns].
  ValueId Product(ValueId x, const std::string& name, int64_t depth, int64_t columns) {
    const MarianArray* const array = arrays_.Take(name, {depth, columns});
    if (array == nullptr) {
      return x;
    }
    const bool is_transposed = array->type == MarianArray::Type::kIntgemm8;
    const ValueId w =
        Constant(name, arrays_.file().Floats(
                           *array, is_transposed ? Shape{columns, depth} : Shape{depth, columns}));
    return At(name).Add("MatMul", {x, w}, MarianAttribute("transpose_b", is_transposed));
  }
  ValueId Affine(ValueId x, const std::string& w, const std::string& b, int64_t depth,
                 int64_t columns) {
    const ValueId product = Product(x, w, depth, columns);
    return At(b).Add("Add", {product, Vector(b, columns)});
  }

  // sqrt(width) * E[ids], times `gate` where that is present. Tables of 8 bits stay such.
  ValueId Embedding(const std::string& table, ValueId ids, ValueId gate) {
    const MarianArray* const array = arrays_.Take(table, {-1, options_.width});
    if (array == nullptr) {
      return NoConstant();
    }
    NodeAppender add = At(table);
    float scale = std::sqrt(static_cast<float>(options_.width));
    const bool is_quantised = array->type == MarianArray::Type::kIntgemm8;
    const ValueId rows =
        Constant(table, is_quantised ? arrays_.file().Integers(*array, array->shape)
                                     : arrays_.file().Floats(*array, array->shape));
    ValueId x = add.Add("Gather", {rows, ids, add.Int(0)});
    if (is_quantised) {
      scale /= arrays_.Value(table, arrays_.file().Multiplier(*array));
      x = add.Add("Convert", {x}, MarianAttribute("destination_type", std::string("f32")));
    }
    ValueId factor = Number(add, scale);
    if (gate.present()) {
      factor = add.Add("Multiply", {gate, factor});
    }
    return add.Add("Multiply", {x, factor});
  }

  // P of positions f32 [..., 1]: [..., width].
  ValueId Sinusoids(ValueId positions, int64_t axis) {
    const int64_t half = options_.width / 2;
    const float increment =
        half > 1 ? std::log(10000.0f) / (static_cast<float>(half) - 1.0f) : 0.0f;
    std::vector<float> rates;
    for (int64_t i = 0; i < half; ++i) {
      rates.push_back(std::exp(static_cast<float>(i) * -increment));
    }
    NodeAppender add = At("positions");
    const ValueId angles =
        add.Add("Multiply", {positions, add.Constant(Tensor::Of<float>({half}, rates))});
    return add.Concat({add.Add("Sin", {angles}), add.Add("Cos", {angles})}, axis);
  }

  // norm(x + input), scaled.
  ValueId AddedNorm(ValueId x, ValueId input, const std::string& name) {
    constexpr double kEpsilon = 1e-6;
    NodeAppender add = At(name);
    Attributes attributes = MarianAttribute("normalize_variance", true);
    attributes.Set("eps", kEpsilon);
    attributes.Set("eps_mode", std::string("inside_sqrt"));
    const ValueId sum = add.Add("Add", {x, input});
    ValueId y = add.Add("MVN", {sum, add.Ints({rank_ - 1})}, std::move(attributes));
    y = add.Add("Multiply", {y, Vector(name + "_ln_scale", options_.width)});
    return add.Add("Add", {y, Vector(name + "_ln_bias", options_.width)});
  }

  ValueId FeedForward(ValueId x, const std::string& layer, int64_t inner) {
    const std::string name = layer + "_ffn";
    ValueId y = Affine(x, name + "_W1", name + "_b1", options_.width, inner);
    y = At(name).Add("ReLU", {y});
    y = Affine(y, name + "_W2", name + "_b2", inner, options_.width);
    return AddedNorm(y, x, name + "_ffn");
  }

  // Queries of x and keys and values of `memory` [rows, length, width]; by heads they are [rows,
  // heads, length, width / heads], keys with the last two axes swapped. `weights`: the shares, if
  // they are asked for.
  ValueId Attention(ValueId x, ValueId memory, const std::string& name, ValueId* weights) {
    const int64_t heads = options_.heads;
    const int64_t depth = options_.width / heads;
    NodeAppender add = At(name);
    const ValueId query = rank_ == 3 ? ByHeads(Projected(x, name, "q"), {0, 2, 1, 3}, add)
                                     : Reshaped(Projected(x, name, "q"), {0, heads, 1, depth}, add);
    const ValueId key = ByHeads(Projected(memory, name, "k"), {0, 2, 3, 1}, add);
    const ValueId value = ByHeads(Projected(memory, name, "v"), {0, 2, 1, 3}, add);
    const float scale = 1.0f / std::sqrt(static_cast<float>(depth));
    const ValueId scores =
        add.Add("Multiply", {add.Add("MatMul", {query, key}), Number(add, scale)});
    const ValueId shares = add.Add("SoftMax", {scores}, MarianAttribute("axis", int64_t{-1}));
    ValueId y = add.Add("MatMul", {shares, value});
    if (rank_ == 3) {
      y = add.Add("Transpose", {y, add.Ints({0, 2, 1, 3})});
      y = Reshaped(y, {0, 0, options_.width}, add);
    } else {
      y = Reshaped(y, {0, options_.width}, add);
    }
    if (weights != nullptr) {
      *weights = shares;
    }
    return AddedNorm(Projected(y, name, "o"), x, name + "_Wo");
  }

  ValueId Constant(const std::string& name, absl::StatusOr<Tensor> tensor) {
    Tensor value = arrays_.Value(name, std::move(tensor));
    return value.has_value() ? At(name).Constant(std::move(value)) : NoConstant();
  }
  // In the place of one that is missing: the graph is thrown away.
  ValueId NoConstant() { return At("missing").Int(0); }

  MarianArrays& arrays_;
  const MarianOptions& options_;

 private:
  ValueId Projected(ValueId x, const std::string& name, absl::string_view which) {
    return Affine(x, absl::StrCat(name, "_W", which), absl::StrCat(name, "_b", which),
                  options_.width, options_.width);
  }
  // 0 keeps an extent, -1 is what is left.
  static ValueId Reshaped(ValueId x, const std::vector<int64_t>& shape, NodeAppender& add) {
    return add.Add("Reshape", {x, add.Ints(shape)}, MarianAttribute("special_zero", true));
  }
  ValueId ByHeads(ValueId x, const std::vector<int64_t>& order, NodeAppender& add) {
    const int64_t heads = options_.heads;
    const ValueId split = Reshaped(x, {0, -1, heads, options_.width / heads}, add);
    return add.Add("Transpose", {split, add.Ints(order)});
  }

  Graph& graph_;
  const int rank_;
};

class MarianEncoder : MarianLayers {
 public:
  MarianEncoder(MarianArrays& arrays, Graph& graph) : MarianLayers(arrays, graph, 3) {}

  void Build() {
    constexpr int64_t kOpen = PartialShape::kDynamic;
    const ValueId source = Parameter("source", DType::kI64, {kOpen, kOpen});
    const std::string table = options_.shared_embeddings ? "Wemb" : "encoder_Wemb";
    ValueId x = Embedding(table, source, ValueId());
    NodeAppender add = At("positions");
    const ValueId length = add.Pick(add.Add("ShapeOf", {source}), 1, 0);
    const ValueId counted = add.Add("Range", {add.Int(0), length, add.Int(1)},
                                    MarianAttribute("output_type", std::string("i64")));
    const ValueId positions =
        add.Add("Convert", {counted}, MarianAttribute("destination_type", std::string("f32")));
    x = add.Add("Add", {x, Sinusoids(add.Add("Unsqueeze", {positions, add.Ints({1})}), 1)});
    for (int64_t i = 1; i <= options_.encoder_layers; ++i) {
      const std::string layer = absl::StrCat("encoder_l", i);
      x = Attention(x, x, layer + "_self", nullptr);
      x = FeedForward(x, layer, options_.encoder_ffn);
    }
    Result("memory", x);
  }
};

class MarianDecoder : MarianLayers {
 public:
  MarianDecoder(MarianArrays& arrays, Graph& graph) : MarianLayers(arrays, graph, 2) {}

  void Build() {
    constexpr int64_t kOpen = PartialShape::kDynamic;
    const ValueId token = Parameter("token", DType::kI64, {kOpen});
    const ValueId position = Parameter("position", DType::kF32, {kOpen, 1});
    std::vector<ValueId> cells;
    for (int64_t i = 1; i <= options_.decoder_layers; ++i) {
      cells.push_back(Parameter(absl::StrCat("cell", i), DType::kF32, {kOpen, options_.width}));
    }
    memory_ = Parameter("memory", DType::kF32, {kOpen, kOpen, options_.width});

    Attributes between = MarianAttribute("min", 0.0);
    between.Set("max", 1.0);
    NodeAppender add = At("positions");
    const ValueId is_later = add.Add("Clamp", {position}, std::move(between));
    const ValueId embedded = Embedding(Table(), token, is_later);
    ValueId x = add.Add("Add", {embedded, Sinusoids(position, 1)});
    const ValueId next = add.Add("Add", {position, Number(add, 1)});
    for (size_t i = 0; i < cells.size(); ++i) {
      x = Layer(x, absl::StrCat("decoder_l", i + 1), cells[i]);
    }
    Result("logits", Logits(x));
    Result("position_next", next);
    for (size_t i = 0; i < cells.size(); ++i) {
      Result(absl::StrCat("cell", i + 1, "_next"), cells[i]);
    }
    // Marian aligns by the first head of the last layer.
    NodeAppender align = At("alignment");
    Result("alignment", align.Add("Squeeze", {align.Pick(weights_, 0, 1), align.Ints({1})}));
  }

 private:
  std::string Table() const { return options_.shared_embeddings ? "Wemb" : "decoder_Wemb"; }

  // The output of a layer's cell and `cell`, the state, which becomes the next one.
  ValueId Ssru(ValueId x, const std::string& name, ValueId& cell) {
    const int64_t width = options_.width;
    NodeAppender add = At(name);
    const ValueId forget =
        add.Add("Sigmoid", {Affine(x, name + "_Wf", name + "_bf", width, width)});
    const ValueId input = Product(x, name + "_W", width, width);
    const ValueId rest = add.Add("Subtract", {Number(add, 1), forget});
    cell =
        add.Add("Add", {add.Add("Multiply", {forget, cell}), add.Add("Multiply", {rest, input})});
    return add.Add("ReLU", {cell});
  }
  ValueId Gru(ValueId x, const std::string& name, ValueId& cell) {
    const int64_t width = options_.width;
    NodeAppender add = At(name);
    const auto sum = [&](ValueId a, ValueId b) { return add.Add("Add", {a, b}); };
    // Both gates in one product, reset before update.
    const ValueId arguments = sum(Product(x, name + "_W", width, 2 * width),
                                  Product(cell, name + "_U", width, 2 * width));
    const ValueId gates = add.Add("Sigmoid", {sum(arguments, Vector(name + "_b", 2 * width))});
    const ValueId reset =
        add.Add("Split", {gates, add.Int(1)}, MarianAttribute("num_splits", int64_t{2}), 2);
    const ValueId update = {reset.node, 1};
    const ValueId kept = add.Add("Multiply", {Product(cell, name + "_Ux", width, width), reset});
    const ValueId candidate = add.Add(
        "Tanh",
        {sum(sum(Product(x, name + "_Wx", width, width), kept), Vector(name + "_bx", width))});
    const ValueId rest = add.Add("Subtract", {Number(add, 1), update});
    cell = sum(add.Add("Multiply", {rest, candidate}), add.Add("Multiply", {update, cell}));
    return cell;
  }

  // `cell`: the state, which becomes the next one.
  ValueId Layer(ValueId x, const std::string& layer, ValueId& cell) {
    const std::string name = layer + "_rnn";
    const ValueId read = options_.has_gru_cells ? Gru(x, name, cell) : Ssru(x, name, cell);
    ValueId y = AddedNorm(read, x, name + "_ffn");
    y = Attention(y, memory_, layer + "_context", &weights_);
    return FeedForward(y, layer, options_.decoder_ffn);
  }

  ValueId Logits(ValueId x) {
    ValueId product;
    const MarianArray* const table = arrays_.Take(Table(), {-1, options_.width});
    if (table == nullptr) {
      return x;
    }
    const int64_t tokens = table->shape[0];
    if (options_.tied_output) {
      // Of 8 bits or not, a table is not transposed: a row for each token.
      const ValueId w = Constant(Table(), arrays_.file().Floats(*table, table->shape));
      product = At("logits").Add("MatMul", {x, w}, MarianAttribute("transpose_b", true));
    } else {
      product = Product(x, kOutputMatrix, options_.width, tokens);
    }
    return At("logits").Add("Add", {product, Vector(kOutputBias, tokens)});
  }

  ValueId memory_;
  ValueId weights_;
};

struct MarianGraphs {
  Graph encoder;
  Graph decoder;
};

absl::StatusOr<MarianGraphs> BuildMarian(const MarianFile& file, const MarianOptions& options) {
  MarianGraphs graphs;
  MarianArrays arrays(file, options);
  MarianEncoder(arrays, graphs.encoder).Build();
  MarianDecoder(arrays, graphs.decoder).Build();
  BW_RETURN_IF_ERROR(arrays.Finish());
  return graphs;
}

}  // namespace

bool IsMarianGraphName(absl::string_view name) {
  return absl::EndsWith(name, kEncoderSuffix) || absl::EndsWith(name, kDecoderSuffix);
}

MarianGraphName ParseMarianGraphName(absl::string_view name) {
  MarianGraphName parsed;
  parsed.part = absl::EndsWith(name, kDecoderSuffix) ? MarianPart::kDecoder : MarianPart::kEncoder;
  parsed.path = std::string(name.substr(0, name.rfind('#')));
  return parsed;
}

absl::StatusOr<Graph> ReadMarian(InputFilePtr file, MarianPart part) {
  BW_RETURN_IF_ERROR(CheckFileKind(*file));
  BW_ASSIGN_OR_RETURN(const MarianFile arrays, MarianFile::Read(std::move(file)));
  BW_ASSIGN_OR_RETURN(const std::string yaml, arrays.Options());
  BW_ASSIGN_OR_RETURN(const MarianOptions options, ParseMarianOptions(yaml));
  BW_ASSIGN_OR_RETURN(MarianGraphs graphs, BuildMarian(arrays, options));
  Graph graph =
      part == MarianPart::kEncoder ? std::move(graphs.encoder) : std::move(graphs.decoder);
  graph.name = part == MarianPart::kEncoder ? "encoder" : "decoder";
  return graph;
}

absl::StatusOr<MarianFacts> ReadMarianFacts(InputFilePtr file) {
  BW_RETURN_IF_ERROR(CheckFileKind(*file));
  BW_ASSIGN_OR_RETURN(const MarianFile arrays, MarianFile::Read(std::move(file)));
  BW_ASSIGN_OR_RETURN(const std::string yaml, arrays.Options());
  BW_ASSIGN_OR_RETURN(MarianOptions options, ParseMarianOptions(yaml));
  BW_RETURN_IF_ERROR(BuildMarian(arrays, options).status());
  MarianFacts facts;
  const bool shared = options.shared_embeddings;
  facts.source_tokens = arrays.Find(shared ? "Wemb" : "encoder_Wemb")->shape[0];
  facts.target_tokens = arrays.Find(shared ? "Wemb" : "decoder_Wemb")->shape[0];
  facts.decoder_layers = options.decoder_layers;
  facts.shared_embeddings = shared;
  for (const auto& [name, array] : arrays.arrays()) {
    facts.is_quantised |= array.type == MarianArray::Type::kIntgemm8;
  }
  facts.passed_over = std::move(options.passed_over);
  return facts;
}

}  // namespace beamwright::ops
