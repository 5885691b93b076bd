// Both graphs of a model are built whenever one is wanted: only so is it known that each array of
// the file is one that a graph reads. Constants stay in the file, so that costs little.
//
// The formulas are those of Marian's transformer (Vaswani et al. 2017, normalisation behind each
// layer) and of the SSRU (Kim et al. 2019, "From Research to Production and Back"):
//   x_t = sqrt(width) * E[token] + P(t), P(t) the sinusoids, all sines before all cosines
//   encoder layer: x = norm(attention(x, x) + x); x = norm(W2 relu(W1 x) + x)
//   decoder layer: f = sigmoid(Wf x + bf); c' = f * c + (1 - f) * W x; y = norm(relu(c') + x);
//                  y = norm(attention(y, memory) + y); x = norm(W2 relu(W1 y) + y)
// or, with self-attention, y = norm(attention(x, x of this step and of all before it) + x);
// or, of a GRU (Cho et al. 2014), r, z = sigmoid(W x + U c + b); h = tanh(Wx x + r * Ux c + bx);
//                  c' = (1 - z) * h + z * c; y = norm(c' + x)
#include "ops/import/marian.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/graph/rewrite.h"
#include "ops/import/graph_file.h"
#include "ops/import/marian_file.h"
#include "ops/import/marian_nodes.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kEncoderSuffix = ".bin#encoder";
constexpr absl::string_view kDecoderSuffix = ".bin#decoder";
constexpr char kOutputBias[] = "decoder_ff_logit_out_b";
constexpr char kOutputMatrix[] = "decoder_ff_logit_out_W";

// The layers that encoder and decoder share. Values are [rows, length, width] in the encoder and
// [rows, width] in the decoder.
class MarianLayers : protected MarianNodes {
 public:
  MarianLayers(MarianArrays& arrays, Graph& graph, int rank)
      : MarianNodes(arrays, graph), rank_(rank) {}

 protected:
  // sqrt(width) * E[ids], times `gate` where that is present.
  ValueId ScaledEmbedding(const std::string& table, ValueId ids, ValueId gate) {
    return Embedding(table, ids, gate, std::sqrt(static_cast<float>(options_.width)));
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
    y = Activated(y, At(name));
    y = Affine(y, name + "_W2", name + "_b2", inner, options_.width);
    return AddedNorm(y, x, name + "_ffn");
  }

  // By heads [rows, heads, length, width / heads], keys with the last two axes swapped.
  struct Memory {
    ValueId keys;
    ValueId values;
  };
  // Of `memory` [rows, length, width].
  Memory MemoryOf(ValueId memory, const std::string& name) {
    NodeAppender add = At(name);
    return {ByHeads(Projected(memory, name, "k"), {0, 2, 3, 1}, add),
            ByHeads(Projected(memory, name, "v"), {0, 2, 1, 3}, add)};
  }
  // `cache`: states that begin empty, keys and values [rows, heads, places, width / heads]; they
  // become the next ones, with those of x [rows, width] behind them.
  Memory MemoryWith(ValueId x, const std::string& name, Memory& cache) {
    const int64_t heads = options_.heads;
    NodeAppender add = At(name);
    const auto join = [&](ValueId& state, absl::string_view which) {
      const ValueId place =
          Reshaped(Projected(x, name, which), {0, heads, 1, options_.width / heads}, add);
      state = add.Concat({state, place}, 2);
    };
    join(cache.keys, "k");
    join(cache.values, "v");
    return {add.Add("Transpose", {cache.keys, add.Ints({0, 1, 3, 2})}), cache.values};
  }

  // The layer whose queries are those of x. `weights`: the shares [rows, heads, queries, length].
  ValueId Attention(ValueId x, const Memory& memory, const std::string& name, ValueId* weights) {
    const int64_t heads = options_.heads;
    const int64_t depth = options_.width / heads;
    NodeAppender add = At(name);
    const ValueId queries = Projected(x, name, "q");
    const ValueId query = rank_ == 3 ? ByHeads(queries, {0, 2, 1, 3}, add)
                                     : Reshaped(queries, {0, heads, 1, depth}, add);
    const float scale = 1.0f / std::sqrt(static_cast<float>(depth));
    const ValueId scores =
        add.Add("Multiply", {add.Add("MatMul", {query, memory.keys}), Number(add, scale)});
    const ValueId shares = add.Add("SoftMax", {scores}, MarianAttribute("axis", int64_t{-1}));
    ValueId y = add.Add("MatMul", {shares, memory.values});
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
  ValueId Activated(ValueId x, NodeAppender add) {
    switch (options_.activation) {
      case MarianActivation::kRelu:
        return add.Add("ReLU", {x});
      case MarianActivation::kSwish:
        return add.Add("Swish", {x, Number(add, 1)});
      case MarianActivation::kGelu:
        break;
    }
    return add.Add("Gelu", {x}, MarianAttribute("approximation_mode", std::string("erf")));
  }

  const int rank_;
};

class MarianEncoder : MarianLayers {
 public:
  MarianEncoder(MarianArrays& arrays, Graph& graph) : MarianLayers(arrays, graph, 3) {}

  void Build() {
    constexpr int64_t kOpen = PartialShape::kDynamic;
    const ValueId source = Parameter("source", DType::kI64, {kOpen, kOpen});
    ValueId x = ScaledEmbedding(options_.source_table(), source, ValueId());
    NodeAppender add = At("positions");
    const ValueId length = add.Pick(add.Add("ShapeOf", {source}), 1, 0);
    const ValueId counted = add.Add("Range", {add.Int(0), length, add.Int(1)},
                                    MarianAttribute("output_type", std::string("i64")));
    const ValueId positions =
        add.Add("Convert", {counted}, MarianAttribute("destination_type", std::string("f32")));
    x = add.Add("Add", {x, Sinusoids(add.Add("Unsqueeze", {positions, add.Ints({1})}), 1)});
    for (int64_t i = 1; i <= options_.encoder_layers; ++i) {
      const std::string layer = absl::StrCat("encoder_l", i);
      const std::string self = layer + "_self";
      x = Attention(x, MemoryOf(x, self), self, nullptr);
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
    std::vector<State> states;
    for (int64_t i = 1; i <= options_.decoder_layers; ++i) {
      states.push_back(StartOf(i));
    }
    memory_ = Parameter("memory", DType::kF32, {kOpen, kOpen, options_.width});

    Attributes between = MarianAttribute("min", 0.0);
    between.Set("max", 1.0);
    NodeAppender add = At("positions");
    const ValueId is_later = add.Add("Clamp", {position}, std::move(between));
    const ValueId embedded = ScaledEmbedding(Table(), token, is_later);
    ValueId x = add.Add("Add", {embedded, Sinusoids(position, 1)});
    const ValueId next = add.Add("Add", {position, Number(add, 1)});
    for (size_t i = 0; i < states.size(); ++i) {
      x = Layer(x, absl::StrCat("decoder_l", i + 1), states[i]);
    }
    Result("logits", Logits(x));
    Result("position_next", next);
    for (size_t i = 0; i < states.size(); ++i) {
      if (options_.has_self_attention) {
        Result(absl::StrCat("keys", i + 1, "_next"), states[i].cache.keys);
        Result(absl::StrCat("values", i + 1, "_next"), states[i].cache.values);
      } else {
        Result(absl::StrCat("cell", i + 1, "_next"), states[i].cell);
      }
    }
    // Marian aligns by the first head of the last layer.
    NodeAppender align = At("alignment");
    Result("alignment", align.Add("Squeeze", {align.Pick(weights_, 0, 1), align.Ints({1})}));
  }

 private:
  // Of a layer: the state of its cell, or all keys and values so far.
  struct State {
    ValueId cell;
    Memory cache;
  };

  std::string Table() const { return options_.target_table(); }

  State StartOf(int64_t layer) {
    constexpr int64_t kOpen = PartialShape::kDynamic;
    if (!options_.has_self_attention) {
      return {Parameter(absl::StrCat("cell", layer), DType::kF32, {kOpen, options_.width}), {}};
    }
    const int64_t heads = options_.heads;
    const Shape shape = {kOpen, heads, kOpen, options_.width / heads};
    const ValueId keys = Parameter(absl::StrCat("keys", layer), DType::kF32, shape);
    return {{}, {keys, Parameter(absl::StrCat("values", layer), DType::kF32, shape)}};
  }

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

  // `state` becomes the next one.
  ValueId Layer(ValueId x, const std::string& layer, State& state) {
    ValueId y;
    if (options_.has_self_attention) {
      const std::string name = layer + "_self";
      y = Attention(x, MemoryWith(x, name, state.cache), name, nullptr);
    } else {
      const std::string name = layer + "_rnn";
      y = options_.has_gru_cells ? Gru(x, name, state.cell) : Ssru(x, name, state.cell);
      y = AddedNorm(y, x, name + "_ffn");
    }
    const std::string context = layer + "_context";
    y = Attention(y, MemoryOf(memory_, context), context, &weights_);
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
  if (options.is_s2s) {
    BW_RETURN_IF_ERROR(BuildMarianS2s(arrays, graphs.encoder, graphs.decoder));
  } else {
    MarianEncoder(arrays, graphs.encoder).Build();
    MarianDecoder(arrays, graphs.decoder).Build();
  }
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
  facts.source_tokens = arrays.Find(options.source_table())->shape[0];
  facts.target_tokens = arrays.Find(options.target_table())->shape[0];
  facts.decoder_layers = options.is_s2s ? 1 : options.decoder_layers;
  facts.has_start_state = options.is_s2s;
  facts.has_self_attention = options.has_self_attention;
  facts.shared_embeddings = shared;
  for (const auto& [name, array] : arrays.arrays()) {
    facts.is_quantised |= array.type == MarianArray::Type::kIntgemm8;
  }
  facts.passed_over = std::move(options.passed_over);
  return facts;
}

}  // namespace beamwright::ops
